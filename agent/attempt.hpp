// One attempt from lease to exit, as one thread that tells it in order: prepare the folder, start the command, watch it,
// stop it, take the last checkpoint, publish outputs, ship the last bytes of its log, say Exited. Others only leave orders.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "agent/bulk_client.hpp"
#include "agent/checkpointing.hpp"
#include "agent/container_engine.hpp"
#include "agent/ending.hpp"
#include "agent/frame.hpp"
#include "agent/log_shipper.hpp"
#include "agent/outbox.hpp"
#include "agent/periodic_snapshots.hpp"
#include "agent/user_account.hpp"
#include "agent/workspace.hpp"

namespace gf::agent {

/// What an attempt needs of the worker. All thread-safe.
struct AttemptHost {
    const Settings& settings;
    const Workspace& workspace;
    std::string boot_id;
    std::string gpus;  // what a container is to be given: "", "all", or a list of devices
    Outbox& outbox;
    std::function<std::unique_ptr<BulkClient>()> bulk;
    std::function<void(const Frame&)> to_supervisor;
};

class Attempt {
 public:
    static constexpr const char* kLogSpool = "log";     // names below the workspace's private folder
    static constexpr const char* kPackSpool = "spool";
    static constexpr const char* kCodeAside = "code";
    static constexpr const char* kBox = "box";          // what a container sees of us
    static constexpr const char* kLogin = "login";      // of a registry, while an image is pulled

    /// `kept` is what `on_keep` was last given by a former worker, or empty for a new attempt; `running` whether its job has
    /// been started.
    Attempt(AttemptHost host, agent_protocol::Lease lease, std::string kept, bool started,
            std::function<void(const std::string&)> on_keep);
    ~Attempt();
    void start();

    /// A frame of the supervisor about this attempt's job.
    void on_frame(const Frame& frame);
    void stop(StopOrder order);
    void checkpoint_now();
    /// The right to run is lost: kill everything at once, send nothing more.
    void fence(const std::string& why);

    [[nodiscard]] const agent_protocol::Lease& lease() const { return lease_; }
    [[nodiscard]] std::string mark() const { return host_.boot_id + "." + lease_.attempt; }
    [[nodiscard]] std::string state() const;  // as Hello has it
    [[nodiscard]] std::int64_t log_bytes() const;
    /// The thread has said Exited and is done.
    [[nodiscard]] bool over() const { return over_; }
    /// Whether what `on_keep` was given is of an attempt whose end has been told.
    [[nodiscard]] static bool is_done(const std::string& kept);
    /// Nothing of the job runs any more and the last snapshot lies on this disk, sent or not.
    [[nodiscard]] bool local_work_done() const { return local_done_; }
    [[nodiscard]] bool has_unsent() const;

 private:
    void run();
    Result<void> prepare();
    Result<void> restore();
    Result<void> wipe();
    Result<void> find_engine();
    Result<void> prepare_image();
    void contain(JobOrder& order) const;
    Error engine_fault(Error error);
    void remove_container();
    [[nodiscard]] std::string ask_path() const;
    void make_checkpointing();
    bool launch();
    void not_started();
    std::unexpected<Error> spec_fault(Error error);
    Result<UserAccount> account() const;
    Result<void> start_job();
    void watch();
    void act_on_stop(Millis now);
    void finish();
    void over_by(const agent_protocol::Exited& exited);
    void last_checkpoint(agent_protocol::Exited& exited);
    void publish(agent_protocol::Exited& exited);
    void ship_log();
    void remember(const char* phase);
    [[nodiscard]] std::string private_path(const std::string& name) const;
    [[nodiscard]] std::string checkpoint_folder() const;
    [[nodiscard]] std::optional<StopOrder> stop_order() const;
    [[nodiscard]] bool preparing_is_over() const;
    void make_helpers(bool resumed);

    AttemptHost host_;
    const agent_protocol::Lease lease_;
    std::function<void(const std::string&)> on_keep_;
    const bool started_before_;
    bool spec_fault_{false};  // what failed in the set-up fails on every machine
    std::string kept_phase_;
    std::string folder_;
    std::optional<ContainerEngine> engine_;        // for a lease with a container
    std::vector<std::string> entrypoint_;          // of the image, where the spec wants it kept
    std::optional<UserAccount> image_account_;     // the spec's user as the image knows it
    std::unique_ptr<Checkpointing> checkpoints_;
    std::unique_ptr<LogShipper> shipper_;
    std::unique_ptr<PeriodicSnapshots> snapshots_;  // while the job runs; set and cleared under mutex_
    std::atomic<std::int64_t> step_{0};
    std::atomic<std::int64_t> read_to_{0};
    std::atomic<bool> over_{false};
    std::atomic<bool> local_done_{false};
    std::atomic<bool> fenced_{false};
    Millis started_at_{0};
    std::int64_t generation_{0};
    std::int64_t start_step_{0};

    mutable std::mutex mutex_;  // guards all below
    std::condition_variable wake_;
    std::string phase_{"preparing"};  // preparing, failed, running, finishing, done
    std::optional<std::int64_t> pid_;
    bool leader_gone_{false};
    std::optional<JobExit> exit_;
    std::optional<StopOrder> stop_;
    std::optional<Millis> signalled_at_;   // boot time
    std::optional<Instant> signalled_wall_;
    std::optional<Millis> touched_at_;
    bool kill_sent_{false};
    std::string fence_why_;
    /// Why the job never ran. Kept before it is told, so that a worker that takes over does not launch it after all.
    struct Failed {
        std::string reason, detail;
    };
    std::optional<Failed> failed_;

    std::thread thread_;
};

}  // namespace gf::agent
