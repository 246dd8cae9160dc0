// What an attempt does beside the rest when its job runs in a container of the machine's own engine.
#include <sys/stat.h>
#include <unistd.h>

#include "agent/attempt.hpp"
#include "agent/clock.hpp"
#include "agent/command.hpp"
#include "agent/log.hpp"

namespace gf::agent {
namespace ap = agent_protocol;

namespace {

constexpr Millis kRemoveLimit{120'000};
// At an attempt's end there is no waiting for an engine that boots: it may be the engine's going that ended the job.
constexpr Millis kFindAgain{20'000};

std::string own_program(const Workspace& workspace) { return workspace.private_folder() + "/bin/gpuferry-agent"; }

}  // namespace

std::string Attempt::ask_path() const { return private_path(lease_.container ? std::string(kBox) + "/ask.sock" : "ask.sock"); }

/// The first word from the machine's engine, and the last of whatever a former attempt left running.
Result<void> Attempt::find_engine() {
    if (host_.workspace.base().find_first_of(":,") != std::string::npos)
        return fail(ErrorKind::io, "an engine cannot mount the workspace " + host_.workspace.base());
    host_.outbox.push(ap::Preparing{.attempt = lease_.attempt, .phase = "image", .detail = lease_.image});
    auto engine = ContainerEngine::find(host_.settings.machine, [this] { return preparing_is_over(); });
    if (!engine) return fail(engine.error());
    engine_ = *std::move(engine);
    return engine_->remove_left_over();
}

Result<void> Attempt::wipe() {
    const std::vector<std::string> inside{kLogSpool, kPackSpool, kCodeAside, kBox};
    auto made = host_.workspace.prepare(lease_.job, inside);
    if (!made && engine_ && engine_->by_sudo()) {
        // The container's root wrote what an agent of another user cannot remove, in this job's folder or in another's.
        std::vector<std::string> words{"-n", "rm", "-rf", "--one-file-system", "--"};
        for (const auto& name : host_.workspace.left_over(lease_.job)) words.push_back(host_.workspace.job_folder(name));
        const auto removed = run_command("sudo", words, kRemoveLimit);
        if (removed.good()) made = host_.workspace.prepare(lease_.job, inside);
    }
    if (!made) return fail(made.error());
    // For the job's user to go through to the socket that it asks for checkpoints by.
    if (lease_.container && ::chmod(private_path(kBox).c_str(), 0711) != 0) return fail(system_error("open", private_path(kBox)));
    return {};
}

Error Attempt::engine_fault(Error error) {
    if (error.kind == ErrorKind::invalid) spec_fault_ = true;
    return error;
}

Result<void> Attempt::prepare_image() {
    if (::access(own_program(host_.workspace).c_str(), X_OK) != 0) return fail(system_error("run", own_program(host_.workspace)));
    auto pulled = engine_->pull({.image = lease_.image,
                                 .registry = lease_.registry,
                                 .config = private_path(kLogin),
                                 .tell = [this](const std::string& what) {
                                     host_.outbox.push(ap::Preparing{.attempt = lease_.attempt, .phase = "image", .detail = what});
                                 }});
    if (!pulled) return fail(engine_fault(pulled.error()));
    const auto image = engine_->look_into(lease_.image);
    if (!image) return fail(engine_fault(image.error()));
    if (lease_.keep_entrypoint) entrypoint_ = image->entrypoint;
    if (lease_.user.empty()) return {};
    auto account = engine_->account(lease_.image, lease_.user, own_program(host_.workspace));
    if (!account) return fail(engine_fault(account.error()));
    image_account_ = *std::move(account);
    return {};
}

void Attempt::contain(JobOrder& order) const {
    const std::string name = container_name(lease_.attempt);
    order.drop_user = image_account_ && image_account_->uid != 0;
    order.entrypoint = entrypoint_;
    order.door = private_path(kBox) + "/door.sock";
    order.path_more = private_path("bin");
    if (lease_.checkpoint.declared) order.saves_in = checkpoint_folder();
    order.give_back = ::getuid() != 0;
    order.owner_uid = ::getuid();
    order.owner_gid = ::getgid();
    order.client = engine_->run_command_line({.name = name,
                                              .attempt = lease_.attempt,
                                              .mark = mark(),
                                              .image = lease_.image,
                                              .folder = folder_,
                                              .box = private_path(kBox),
                                              .agent = own_program(host_.workspace),
                                              .door = order.door,
                                              .shm_bytes = lease_.shm_bytes,
                                              .gpus = host_.gpus});
    order.client_env = command_environment();
    order.remove = engine_->remove_command_line(name);
    order.inspect = engine_->inspect_command_line(name);
}

/// After the keeper was killed: its line to the container is cut, which ends that; here it is seen to. The stop that breaks off a
/// pull is not to break this off.
void Attempt::remove_container() {
    if (!engine_) {
        const Millis until = boot_time() + kFindAgain;
        auto engine = ContainerEngine::find(host_.settings.machine, [until] { return boot_time() >= until; });
        if (engine) engine_ = *std::move(engine);
    }
    if (!engine_) return;
    engine_->set_cancelled({});
    const auto removed = engine_->remove_left_over();
    if (!removed) log("warn", removed.error().message);
}

}  // namespace gf::agent
