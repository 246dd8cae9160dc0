// Carries one attempt's output from the spool to the daemon. Offsets are those of the output; the daemon's answer says how
// much it has on disk, and that alone decides what is sent next, so a cut connection neither loses nor repeats a byte.
//
// Beyond the spool's head nothing is sent before the output has ended, because the tail may still be dropped by the quota;
// then what is left of it follows, and holes go as `skip`.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "agent/bulk_client.hpp"
#include "agent/spool.hpp"

namespace gf::agent {

class LogShipper {
 public:
    struct Order {
        std::string attempt;
        std::string spool;            // folder
        SpoolLimits limits;
        bool ask_first{false};        // a worker before this one has shipped some: ask the daemon how much
        std::function<std::int64_t()> keep_from;  // spool bytes from here on are still needed by others
        std::function<void()> fenced; // 409: this attempt has lost its right; called once
    };
    LogShipper(std::unique_ptr<BulkClient> bulk, Order order);
    ~LogShipper();

    /// The output ends at `total`: ships to there. `shipped` is true once it is all acknowledged (or given up as fenced).
    void finish(std::int64_t total);
    [[nodiscard]] bool shipped() const { return done_; }
    [[nodiscard]] std::int64_t acknowledged() const { return at_; }

 private:
    void run();
    /// False when there is nothing to send now.
    Result<bool> ship_some();
    Result<std::int64_t> post(const std::string& query, std::string_view body);

    std::unique_ptr<BulkClient> bulk_;
    Order order_;
    SpoolReader spool_;
    std::atomic<bool> stopping_{false};
    std::atomic<bool> done_{false};
    std::atomic<bool> fenced_{false};
    std::atomic<std::int64_t> total_{-1};  // -1 = still growing
    std::atomic<std::int64_t> at_{0};
    std::int64_t discarded_to_{0};
    std::thread thread_;
};

}  // namespace gf::agent
