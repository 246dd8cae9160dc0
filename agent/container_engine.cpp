#include "agent/container_engine.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "agent/clock.hpp"
#include "agent/command.hpp"
#include "agent/engine_words.hpp"
#include "agent/log.hpp"
#include "agent/processes.hpp"
#include "agent/workspace.hpp"

namespace gf::agent {
namespace {

constexpr const char* kMachineLabel = "io.gpuferry.machine";
constexpr const char* kAttemptLabel = "io.gpuferry.attempt";
// The user data of a fresh machine runs while its docker is still starting, and a package upgrade restarts it.
constexpr Millis kBootPatience{180'000};
constexpr Millis kShort{60'000};
// Removing waits for the device driver to let go of the GPU.
constexpr Millis kRemoveLimit{120'000};
// Of a pull: none that counts. Fits into what poll takes.
constexpr Millis kNoLimit = std::chrono::hours{24 * 20};
constexpr Millis kBackOffFirst{2'000};
constexpr Millis kBackOffMax{60'000};
constexpr Millis kTellEvery{2'000};
constexpr Millis kLook{100};

constexpr std::string_view kAccountMark = "account:";

unsigned number(std::string_view text) {
    unsigned value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

/// podman looks for a name without a registry where its own settings say, or nowhere; docker, and so every spec, means the Hub.
std::string with_registry(const std::string& image) {
    const auto slash = image.find('/');
    const auto first = image.substr(0, slash);
    if (slash == std::string::npos) return "docker.io/library/" + image;
    return first == "localhost" || first.find_first_of(".:") != std::string::npos ? image : "docker.io/" + image;
}

}  // namespace

std::string container_gpus(const std::map<std::string, std::string>& machine_env) {
    for (const char* name : {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"}) {
        const auto found = machine_env.find(name);
        if (found == machine_env.end()) continue;
        if (found->second == "void" || found->second == "none" || found->second.empty()) return {};
        return found->second;
    }
    return "all";
}

std::string container_name(const std::string& attempt) {
    std::string name = "gpuferry-";
    for (const char c : attempt) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
        name.push_back(plain ? c : '_');
    }
    return name;
}

Result<ContainerEngine> ContainerEngine::find(const std::string& machine, const std::function<bool()>& cancelled) {
    ContainerEngine engine;
    engine.machine_ = machine;
    engine.cancelled_ = cancelled;
    std::string program = find_program("docker");
    if (program.empty()) {
        program = find_program("podman");
        engine.podman_ = true;
    }
    if (program.empty()) return fail(ErrorKind::io, "the job has an image, and this machine has neither docker nor podman");
    const std::string sudo = find_program("sudo");  // with its folder: the keeper has no PATH to look it up by
    const Millis until = boot_time() + kBootPatience;
    const std::vector<std::string> look{"ps", "--quiet"};
    for (Millis pause = kBackOffFirst;; pause = std::min(pause * 2, kBackOffMax)) {
        engine.prefix_ = {program};
        auto answer = engine.run(look, kShort);
        if (!answer.good && ::getuid() != 0 && !sudo.empty()) {
            const auto denied = answer;
            engine.prefix_ = {sudo, "-n", program};
            answer = engine.run(look, kShort);
            if (!answer.good) answer.output = denied.output + "\n" + answer.output;
        }
        if (answer.good) return engine;
        if (answer.cancelled || boot_time() + pause >= until || !engine.wait(pause))
            return fail(ErrorKind::io, program + " does not answer: " + judge_start(answer.output).said);
    }
}

ContainerEngine::Ran ContainerEngine::run(std::vector<std::string> arguments, Millis limit, const std::string& input,
                                          const std::function<void(std::string_view)>& heard) const {
    std::vector<std::string> all = line(arguments);
    const std::string program = all.front();
    all.erase(all.begin());
    const auto result = run_command(program, all, limit, {.input = input, .with_errors = true, .heard = heard, .cancelled = cancelled_});
    Ran ran{.good = result.good(), .cancelled = cancelled_ && cancelled_(), .output = result.output};
    if (!result.started) ran.output = "cannot start " + program;
    if (result.timed_out && !ran.cancelled) ran.output += "\ntimed out after " + std::to_string(limit.count() / 1000) + " s";
    return ran;
}

std::vector<std::string> ContainerEngine::line(const std::vector<std::string>& arguments) const {
    std::vector<std::string> all = prefix_;
    all.insert(all.end(), arguments.begin(), arguments.end());
    return all;
}

std::string ContainerEngine::name_of(const std::string& image) const { return podman_ ? with_registry(image) : image; }

bool ContainerEngine::wait(Millis time) const {
    for (const Millis until = boot_time() + time; boot_time() < until;) {
        if (cancelled_ && cancelled_()) return false;
        ::poll(nullptr, 0, static_cast<int>(std::min(kLook, until - boot_time()).count()));
    }
    return true;
}

Result<void> ContainerEngine::remove_left_over() const {
    const auto found = run({"ps", "--all", "--quiet", "--filter", std::string("label=") + kMachineLabel + "=" + machine_}, kShort);
    if (!found.good) return fail(ErrorKind::io, "cannot list containers: " + judge_start(found.output).said);
    std::vector<std::string> arguments{"rm", "--force"};
    std::string id;
    for (const char c : found.output + "\n") {
        if (c != '\n') {
            id.push_back(c);
            continue;
        }
        // Nothing but ids: a warning among them is no container.
        if (!id.empty() && id.find_first_not_of("0123456789abcdef") == std::string::npos) arguments.push_back(id);
        id.clear();
    }
    if (arguments.size() == 2) return {};
    log("warn", "a container of a former attempt is still there and is removed");
    const auto removed = run(arguments, kRemoveLimit);
    if (!removed.good) return fail(ErrorKind::io, "a container of a former attempt cannot be removed: " + judge_start(removed.output).said);
    return {};
}

Result<void> ContainerEngine::retry(const std::string& what, const PullOrder& order, const std::function<Ran()>& attempt) const {
    Millis waited{0};
    for (Millis pause = kBackOffFirst;; waited += pause, pause = std::min(pause * 2, kBackOffMax)) {
        const auto ran = attempt();
        if (ran.good) return {};
        if (ran.cancelled) return fail(ErrorKind::io, what + " was broken off");
        const auto judged = judge_pull(ran.output);
        const std::string text = what + ": " + judged.said;
        if (judged.fault == EngineFault::spec) return fail(ErrorKind::invalid, text);
        if (judged.fault == EngineFault::host || waited + pause > order.patience) return fail(ErrorKind::io, text);
        order.tell(text + "; trying again");
        if (!wait(pause)) return fail(ErrorKind::io, what + " was broken off");
    }
}

Result<void> ContainerEngine::log_in(const PullOrder& order) const {
    const auto& access = *order.registry;
    std::vector<std::string> arguments;
    if (podman_) arguments = {"login", "--authfile", order.config + "/config.json"};
    else arguments = {"--config", order.config, "login"};
    arguments.insert(arguments.end(), {"--username", access.username, "--password-stdin"});
    if (!access.server.empty()) arguments.push_back(access.server);
    return retry("log in to " + (access.server.empty() ? std::string("the registry") : access.server), order,
                 [&] { return run(arguments, kShort, access.password); });
}

Result<void> ContainerEngine::pull(const PullOrder& order) const {
    if (order.image.starts_with('-')) return fail(ErrorKind::invalid, "image: " + order.image + " is no image");
    if (run({"image", "inspect", "--format", "{{.Id}}", name_of(order.image)}, kShort).good) return {};
    struct Folder {  // with the login in it: gone in every case
        std::string path;
        ~Folder() { remove_tree(path); }
    };
    std::optional<Folder> login;
    std::vector<std::string> arguments;
    if (order.registry) {
        remove_tree(order.config);
        if (::mkdir(order.config.c_str(), 0700) != 0) return fail(system_error("make", order.config));
        login.emplace(order.config);
        if (auto in = log_in(order); !in) return in;
        if (podman_) arguments = {"pull", "--authfile", order.config + "/config.json"};
        else arguments = {"--config", order.config, "pull"};
    } else {
        arguments = {"pull"};
    }
    arguments.push_back(name_of(order.image));
    Millis told_at{0};
    std::string told;
    return retry("pull " + order.image, order, [&] {
        PullProgress progress;
        return run(arguments, kNoLimit, {}, [&](std::string_view piece) {
            progress.feed(piece);
            const auto text = progress.text();
            if (text.empty() || text == told || boot_time() - told_at < kTellEvery) return;
            told = text;
            told_at = boot_time();
            order.tell(text);
        });
    });
}

Result<ContainerEngine::Image> ContainerEngine::look_into(const std::string& image) const {
    const auto ran = run({"image", "inspect", "--format", "{{.Architecture}} {{json .Config.Entrypoint}}", name_of(image)}, kShort);
    if (!ran.good) return fail(ErrorKind::io, "look into " + image + ": " + judge_start(ran.output).said);
    const auto space = ran.output.find(' ');
    const std::string arch = ran.output.substr(0, space);
    if (!arch.empty() && arch != "<no" && arch != GF_AGENT_ARCH)
        return fail(ErrorKind::invalid, "the image " + image + " is for " + arch + ", this machine is " GF_AGENT_ARCH);
    Image found;
    const auto json = space == std::string::npos ? nlohmann::json() : nlohmann::json::parse(ran.output.substr(space), nullptr, false);
    if (json.is_array())
        for (const auto& word : json)
            if (word.is_string()) found.entrypoint.push_back(word.get<std::string>());
    return found;
}

std::string account_line(const UserAccount& account) {
    std::string groups;
    for (const unsigned g : account.groups) groups += (groups.empty() ? "" : ",") + std::to_string(g);
    return std::string(kAccountMark) + std::to_string(account.uid) + ":" + std::to_string(account.gid) + ":" + groups + ":" +
           account.name + ":" + account.home;
}

Result<UserAccount> read_account(std::string_view output) {
    const auto at = output.find(kAccountMark);
    const auto bad = [] { return fail(ErrorKind::malformed, "the image's account cannot be read"); };
    if (at == std::string_view::npos) return bad();
    std::vector<std::string> fields;
    auto rest = output.substr(at + kAccountMark.size());
    rest = rest.substr(0, rest.find('\n'));
    while (fields.size() < 4 && rest.find(':') != std::string_view::npos) {
        fields.emplace_back(rest.substr(0, rest.find(':')));
        rest.remove_prefix(rest.find(':') + 1);
    }
    if (fields.size() != 4) return bad();
    UserAccount account{.uid = number(fields[0]), .gid = number(fields[1]), .groups = {}, .name = fields[3], .home = std::string(rest)};
    std::string_view groups = fields[2];
    while (!groups.empty()) {
        const auto end = std::min(groups.find(','), groups.size());
        account.groups.push_back(number(groups.substr(0, end)));
        groups.remove_prefix(std::min(end + 1, groups.size()));
    }
    return account;
}

Result<UserAccount> ContainerEngine::account(const std::string& image, const std::string& user, const std::string& agent) const {
    const std::string folder = agent.substr(0, agent.rfind('/'));
    const auto ran = run({"run", "--rm", "--pull", "never", "--network", "none", "--user", "0:0", "--label",
                          std::string(kMachineLabel) + "=" + machine_, "--volume", folder + ":" + folder + ":ro", "--entrypoint", agent,
                          name_of(image), "account", user},
                         kShort);
    if (ran.good) return read_account(ran.output);
    const auto judged = judge_start(ran.output);
    const bool unknown = ran.output.find("in this image") != std::string::npos;
    return fail(unknown || judged.fault == EngineFault::spec ? ErrorKind::invalid : ErrorKind::io, "user " + user + ": " + judged.said);
}

std::vector<std::string> ContainerEngine::run_command_line(const RunOrder& order) const {
    const std::string programs = order.agent.substr(0, order.agent.rfind('/'));
    std::vector<std::string> words{"run", "--name", order.name, "--label", std::string(kMachineLabel) + "=" + machine_, "--label",
                                   std::string(kAttemptLabel) + "=" + order.attempt, "--pull", "never"};
    const auto add = [&words](std::initializer_list<std::string> more) { words.insert(words.end(), more); };
    // The first process is ours and passes signals itself; the image's health check would be a process that nobody asked for; and
    // the job's output is kept here, once.
    add({"--sig-proxy=false", "--no-healthcheck", "--log-driver", "none"});
    add({"--network", "host"});
    // Data loaders and NCCL share memory: docker's own 64 MB of it break them (DESIGN section 8).
    if (order.shm_bytes > 0) add({"--shm-size", std::to_string(order.shm_bytes)});
    else add({"--ipc", "host"});
    add({"--ulimit", "memlock=-1", "--ulimit", "stack=67108864"});
    if (!order.gpus.empty() && podman_) {
        std::string_view rest = order.gpus;
        while (!rest.empty()) {
            const auto end = std::min(rest.find(','), rest.size());
            add({"--device", "nvidia.com/gpu=" + std::string(rest.substr(0, end))});
            rest.remove_prefix(std::min(end + 1, rest.size()));
        }
    } else if (!order.gpus.empty()) {
        // Quotes within: the value is a line of CSV, in which a comma begins the next option.
        add({"--gpus", order.gpus == "all" ? order.gpus : "\"device=" + order.gpus + "\""});
    }
    add({"--user", "0:0", "--workdir", order.folder, "--env", std::string(kMarkVariable) + "=" + order.mark});
    add({"--volume", order.folder + ":" + order.folder, "--volume", order.box + ":" + order.box + ":ro", "--volume",
         programs + ":" + programs + ":ro"});
    add({"--entrypoint", order.agent, name_of(order.image), "contained", order.door});
    return line(words);
}

std::vector<std::string> ContainerEngine::remove_command_line(const std::string& name) const { return line({"rm", "--force", name}); }

std::vector<std::string> ContainerEngine::inspect_command_line(const std::string& name) const {
    return line({"inspect", "--format", "{{.State.OOMKilled}}", name});
}

}  // namespace gf::agent
