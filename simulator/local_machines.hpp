// Machines as local processes: one keeper process each (keeper.hpp), driven by one thread of the simulator.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <variant>

#include "model/result.hpp"
#include "simulator/embedded_tools.hpp"
#include "simulator/machines.hpp"

namespace gf::sim {

class LocalMachines final : public Machines {
 public:
    struct Options {
        std::filesystem::path dir;         // machines, logs and tools go below
        std::filesystem::path keeper;      // the gpuferry-sim binary
        std::filesystem::path image_root;  // default image; empty = the host's own /usr
        bool isolate{true};                // false: never try namespaces
        MachineSink sink;
    };

    [[nodiscard]] static Result<std::unique_ptr<LocalMachines>> open(Options options);
    /// Kills every machine and waits for its keeper.
    ~LocalMachines() override;

    void start(ContainerSpec spec) override;
    void signal(const std::string& machine, int number) override;
    void kill(const std::string& machine) override;
    void freeze(const std::string& machine, bool frozen) override;
    void destroy(const std::string& machine) override;
    void set_gpu_facts(const std::string& machine, const std::string& facts) override;
    [[nodiscard]] std::string output(const std::string& machine, std::size_t bytes) override;
    [[nodiscard]] std::string isolation() override;

 private:
    struct Start {
        ContainerSpec spec;
    };
    struct Send {
        std::string text;
        bool facts{false};
    };
    struct Destroy {};
    struct Order {
        std::string machine;
        std::variant<Start, Send, Destroy> what;
    };
    struct KeeperProcess {
        int pid{0};
        int socket{-1};
        std::uint64_t run{0};
        bool running{false};
    };

    LocalMachines(Options options, ToolFolders tools);
    void give(Order order);
    void work();
    void obey(Order order);
    void start_now(const std::string& machine, ContainerSpec spec);
    void listen_to(const std::string& machine);
    void lose(const std::string& machine);
    [[nodiscard]] bool spawn(KeeperProcess& keeper);
    void write_facts(const std::string& machine, const std::string& facts);
    [[nodiscard]] std::filesystem::path folder(const std::string& machine) const;

    Options options_;
    ToolFolders tools_;
    int wake_{-1};
    std::map<std::string, KeeperProcess> keepers_;  // only the working thread

    std::mutex mutex_;  // guards orders_, closing_ and isolation_
    std::vector<Order> orders_;
    bool closing_{false};
    std::string isolation_{"unknown"};
    std::thread worker_;
};

}  // namespace gf::sim
