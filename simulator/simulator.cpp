#include "simulator/simulator.hpp"

#include <atomic>
#include <condition_variable>
#include <nlohmann/json.hpp>
#include <thread>

#include "simulator/admin_face.hpp"
#include "simulator/faults.hpp"
#include "simulator/http_server.hpp"
#include "simulator/lambda_face.hpp"
#include "simulator/local_machines.hpp"
#include "simulator/request_log.hpp"
#include "simulator/runpod_face.hpp"
#include "simulator/vastai_face.hpp"
#include "simulator/vultr_face.hpp"
#include "simulator/world.hpp"

namespace gf::sim {

namespace {

Instant origin_of(const SimulatorOptions& options) {
    if (options.origin != Instant{}) return options.origin;
    return instant_of(wall_micros() / 1000);
}

class Running final : public Simulator {
 public:
    explicit Running(SimulatorOptions options)
        : options_(std::move(options)),
          clock_(origin_of(options_), options_.scale),
          world_(clock_, options_.settings, options_.market, options_.seed),
          runpod_(world_),
          vastai_(world_),
          lambda_(world_),
          vultr_(world_),
          faults_(options_.seed ^ 0x5eedfa17U),
          admin_(world_, vastai_, faults_, log_) {}

    ~Running() override {
        {
            const std::scoped_lock lock(closing_mutex_);
            closing_ = true;
        }
        closing_changed_.notify_all();
        runpod_server_.reset();
        vastai_server_.reset();
        lambda_server_.reset();
        vultr_server_.reset();
        admin_server_.reset();
        world_.nudge();
        if (clockwork_.joinable()) clockwork_.join();
    }

    [[nodiscard]] Result<std::string> open() {
        const MachineSink sink = [this](MachineEvent event) { world_.post(std::move(event)); };
        if (options_.processes) {
            auto machines = LocalMachines::open({.dir = options_.dir,
                                                 .keeper = options_.keeper,
                                                 .image_root = options_.image_root,
                                                 .isolate = options_.isolate,
                                                 .sink = sink});
            if (!machines) return fail(machines.error());
            machines_ = *std::move(machines);
        } else {
            machines_ = std::make_unique<ModelMachines>(sink);
        }
        world_.use(*machines_);
        world_.set_vm_docker(options_.vm_docker);
        // Far over RunPod's own limit, so that it is the face that answers 413.
        constexpr std::size_t kBodyMax = 4U << 20U;
        const auto face = [this](const char* name, auto& target) -> HttpHandler {
            return [this, name, &target](const HttpRequest& request) { return serve(name, target, request); };
        };
        struct Listener {
            std::uint16_t port;
            std::unique_ptr<HttpServer>& server;
            HttpHandler handler;
        };
        Listener listeners[] = {
            {options_.runpod_port, runpod_server_, face("runpod", runpod_)},
            {options_.vastai_port, vastai_server_, face("vastai", vastai_)},
            {options_.lambda_port, lambda_server_, face("lambda", lambda_)},
            {options_.vultr_port, vultr_server_, face("vultr", vultr_)},
            {options_.admin_port, admin_server_,
             [this](const HttpRequest& request) { return administer(request); }},
        };
        for (auto& listener : listeners) {
            auto server = HttpServer::listen(options_.listen, listener.port, std::move(listener.handler), kBodyMax);
            if (!server) return fail(server.error());
            listener.server = *std::move(server);
        }
        if (!options_.faults.empty()) {
            const auto lock = world_.lock();
            const auto rules = nlohmann::json::parse(options_.faults, nullptr, false, true);
            if (!rules.is_array() && !rules.is_object())
                return fail(ErrorKind::invalid, "the fault script is no JSON list or object");
            if (const auto loaded = admin_.load_faults(rules); !loaded) return fail(loaded.error());
        }
        clockwork_ = std::thread([this] { run_clockwork(); });
        return std::string{"ok"};
    }

    [[nodiscard]] std::uint16_t runpod_port() const override { return runpod_server_->port(); }
    [[nodiscard]] std::uint16_t vastai_port() const override { return vastai_server_->port(); }
    [[nodiscard]] std::uint16_t lambda_port() const override { return lambda_server_->port(); }
    [[nodiscard]] std::uint16_t vultr_port() const override { return vultr_server_->port(); }
    [[nodiscard]] std::uint16_t admin_port() const override { return admin_server_->port(); }

 private:
    /// Plays what is due, so that time passes without requests too.
    void run_clockwork() {
        auto lock = world_.lock();
        while (!closing_) {
            world_.advance();
            admin_.play_script();
            world_.wait_for_work(lock);
        }
    }

    /// Waits in real time; false if the simulator closes meanwhile.
    bool pause(std::int64_t ms) {
        std::unique_lock lock(closing_mutex_);
        return !closing_changed_.wait_for(lock, std::chrono::milliseconds(ms),
                                          [this] { return closing_.load(); });
    }

    template <class Face>
    HttpResponse serve(const char* name, Face& face, const HttpRequest& request) {
        LoggedRequest entry{.sequence = 0,
                            .face = name,
                            .method = request.method,
                            .target = request.target,
                            .status = 0,
                            .fault = {},
                            .at = clock_.now(),
                            .began_us = wall_micros(),
                            .ended_us = 0};
        const auto rule = faults_.match(name, request, clock_.now());
        if (rule) entry.fault = text(rule->action);
        auto response = answer(name, face, request, rule);
        entry.status = response.cut ? 0 : response.status;
        entry.ended_us = wall_micros();
        log_.add(std::move(entry), request.path);
        return response;
    }

    template <class Face>
    HttpResponse answer(const char* name, Face& face, const HttpRequest& request,
                        const std::optional<FaultRule>& rule) {
        using Action = FaultRule::Action;
        HttpResponse nothing;
        nothing.cut = true;
        if (rule) {
            switch (rule->action) {
                case Action::status:
                case Action::html:
                case Action::throttle:
                case Action::retired:
                    return refusal(*rule, name);
                case Action::cut_before:
                    return nothing;
                case Action::hang:
                    pause(rule->ms > 0 ? rule->ms : 120'000);
                    return nothing;
                case Action::delay_ms:
                    if (!pause(rule->ms)) return nothing;
                    break;
                case Action::cut_after_effect:
                case Action::error_after_effect:
                case Action::delay_after_effect:
                case Action::truncate_json:
                case Action::empty_list:
                case Action::short_list:
                case Action::null_instances:
                case Action::merge_json:
                case Action::drop_field:
                case Action::scale_field:
                case Action::set_field:
                    break;
            }
        }
        HttpResponse response;
        {
            const auto lock = world_.lock();
            world_.advance();
            try {
                response = face.handle(request);
            } catch (const std::exception& e) {
                // A request that the face did not expect: answer as a server does, and say why on the log.
                response.status = 500;
                response.body = std::string{"{\"success\":false,\"error\":\"internal\",\"msg\":\""} +
                                "internal error" + "\"}";
                response.headers.emplace_back("X-Sim-Error", e.what());
            }
        }
        if (rule && rule->action == Action::delay_after_effect && !pause(rule->ms)) return nothing;
        if (rule) distort(response, *rule);
        return response;
    }

    HttpResponse administer(const HttpRequest& request) {
        const auto lock = world_.lock();
        world_.advance();
        return admin_.handle(request);
    }

    SimulatorOptions options_;
    Clock clock_;
    World world_;
    RunpodFace runpod_;
    VastaiFace vastai_;
    LambdaFace lambda_;
    VultrFace vultr_;
    Faults faults_;
    RequestLog log_;
    AdminFace admin_;
    std::atomic<bool> closing_{false};
    std::mutex closing_mutex_;  // only for closing_changed_
    std::condition_variable closing_changed_;
    std::unique_ptr<Machines> machines_;
    std::unique_ptr<HttpServer> runpod_server_;
    std::unique_ptr<HttpServer> vastai_server_;
    std::unique_ptr<HttpServer> lambda_server_;
    std::unique_ptr<HttpServer> vultr_server_;
    std::unique_ptr<HttpServer> admin_server_;
    std::thread clockwork_;
};

}  // namespace

Result<std::unique_ptr<Simulator>> Simulator::start(SimulatorOptions options) {
    auto running = std::make_unique<Running>(std::move(options));
    const auto opened = running->open();
    if (!opened) return fail(opened.error());
    return std::unique_ptr<Simulator>(std::move(running));
}

}  // namespace gf::sim
