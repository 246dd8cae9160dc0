// The whole daemon put together: data folder, store, providers, core, gateway and REST. `main` parses flags and waits for
// signals; everything else is here.
#pragma once
#include <memory>
#include <string>

#include "config/settings.hpp"
#include "model/result.hpp"

namespace gf {

struct ServiceOptions {
    Settings settings;
    double time_scale{1};
    std::optional<std::int64_t> time_origin_ms;  // real time at which scaled time equals real time; absent = now
    std::string ports_file;                      // JSON with the ports that are really used, written when ready
    std::string agent_path;                      // gpuferry-agent; empty = beside this program
};

class Service {
 public:
    explicit Service(ServiceOptions options);
    ~Service();
    /// Opens everything, rebuilds the state and starts serving. Errors name the file, address or key.
    Result<void> start();
    /// Stops accepting, ends sessions, finishes the batch in hand, closes the store. Machines and their jobs go on.
    void stop();
    /// The three lines for people: what was found, where the socket is, what to type next.
    [[nodiscard]] std::string greeting() const;

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace gf
