// What the container of a rental gets: command, environment, ports, disk and GPUs.
#include <fmt/format.h>

#include <algorithm>

#include "simulator/world.hpp"

namespace gf::sim {

namespace {

constexpr std::uint64_t kGb = 1'000'000'000;

/// The environment that an NVIDIA image brings along.
Environment image_environment(const ImageFacts& image) {
    Environment env{
        {"PATH",
         "/usr/local/nvidia/bin:/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/"
         "bin"},
        {"LD_LIBRARY_PATH", "/usr/local/nvidia/lib:/usr/local/nvidia/lib64"},
        {"HOME", "/root"},
        {"NVIDIA_VISIBLE_DEVICES", "all"},
        {"NVIDIA_DRIVER_CAPABILITIES", "compute,utility"},
    };
    for (const auto& [name, value] : image.env) set_env(env, name, value);
    return env;
}

std::string port_number(const std::string& port) {
    return port.substr(0, port.find('/'));
}

void add_runpod_variables(Environment& env, const Rental& rental, const Host& host) {
    set_env(env, "RUNPOD_POD_ID", rental.id);
    set_env(env, "RUNPOD_API_KEY", rental.container_key);
    set_env(env, "RUNPOD_DC_ID", host.data_center);
    set_env(env, "RUNPOD_POD_HOSTNAME", rental.id + "-64411eb2");
    set_env(env, "RUNPOD_GPU_COUNT", std::to_string(rental.gpus));
    set_env(env, "RUNPOD_CPU_COUNT", std::to_string(std::max(2, rental.gpus * 8)));
    set_env(env, "RUNPOD_PUBLIC_IP", host.public_ip);
    set_env(env, "CUDA_VERSION", fmt::format("{:.1f}", host.cuda));
    if (!rental.network_volume.empty()) set_env(env, "RUNPOD_VOLUME_ID", rental.network_volume);
    for (const auto& [port, number] : rental.public_ports) {
        if (port.ends_with("/tcp"))
            set_env(env, "RUNPOD_TCP_PORT_" + port_number(port), std::to_string(number));
    }
}

void add_vast_variables(Environment& env, const Rental& rental, const Host& host) {
    set_env(env, "CONTAINER_ID", rental.id);
    set_env(env, "CONTAINER_API_KEY", rental.container_key);
    set_env(env, "VAST_CONTAINERLABEL", "C." + rental.id);
    set_env(env, "PUBLIC_IPADDR", host.public_ip);
    set_env(env, "GPU_COUNT", std::to_string(rental.gpus));
    set_env(env, "DATA_DIRECTORY", "/workspace/");
    for (const auto& [port, number] : rental.public_ports) {
        const auto* kind = port.ends_with("/udp") ? "VAST_UDP_PORT_" : "VAST_TCP_PORT_";
        set_env(env, kind + port_number(port), std::to_string(number));
    }
}

}  // namespace

void World::assign_ports(Rental& rental) {
    rental.public_ports.clear();
    for (const auto& port : rental.ports) {
        // A new random public port at every start; identity mapping from 70000 up.
        rental.public_ports[port] = 20'000 + static_cast<int>(entropy_.below(40'000));
    }
}

ContainerSpec World::container(Rental& rental) {
    const auto& image = market_.image(rental.image);
    const Host nowhere;
    const auto* found = market_.host(rental.host);
    const auto& host = found == nullptr ? nowhere : *found;

    ContainerSpec spec;
    spec.machine = rental.id;
    spec.run = rental.run;
    spec.hostname = rental.provider == Provider::runpod ? rental.id : "C." + rental.id;
    spec.image_root = image.root;
    spec.wipe = rental.wipe_next;
    spec.env = image_environment(image);
    for (const auto& [name, value] : rental.env) {
        // Vast carries docker flags as keys: ports, volumes and the host name.
        if (name.starts_with("-h ")) spec.hostname = name.substr(3);
        if (!name.starts_with("-")) set_env(spec.env, name, value);
    }
    set_env(spec.env, "HOSTNAME", spec.hostname);

    if (rental.provider == Provider::runpod) {
        add_runpod_variables(spec.env, rental, host);
        if (auto argv = runpod_argv(rental.args, image.entrypoint, image.cmd)) spec.argv = *std::move(argv);
    } else {
        add_vast_variables(spec.env, rental, host);
        auto args = rental.arg_list;
        if (args.empty() && !rental.args.empty()) {
            if (auto words = shell_words(rental.args)) args = *std::move(words);
        }
        spec.argv = rental.runtype == "args"
                        ? vast_args_argv(rental.onstart, args, image.entrypoint, image.cmd)
                        : vast_ssh_argv(rental.onstart);
    }

    spec.disk_bytes = static_cast<std::uint64_t>(rental.disk_gb_milli) * (kGb / 1000);
    if (rental.gpu_fault.disk_mib)
        spec.disk_bytes = static_cast<std::uint64_t>(*rental.gpu_fault.disk_mib) << 20U;
    if (!rental.volume_path.empty()) {
        spec.volumes.push_back({rental.volume_path, static_cast<std::uint64_t>(rental.volume_gb) * kGb});
    }
    if (!rental.network_path.empty()) spec.volumes.push_back({rental.network_path, 0, rental.network_volume});
    spec.gpu_facts = facts(rental);
    spec.libcuda = !spec.gpu_facts.empty() && !rental.gpu_fault.no_libcuda;
    return spec;
}

std::string World::facts(const Rental& rental) const {
    const auto* model = market_.model(rental.gpu);
    if (model == nullptr || rental.gpus == 0) return {};
    const Host nowhere;
    const auto* host = market_.host(rental.host);
    auto card = *model;
    const auto* type = market_.vm_type(rental.provider, rental.vm.type);
    if (type != nullptr && !type->share.empty()) {
        // A slice shows itself as a card of its own, named as NVIDIA's vGPU profiles are.
        card.card_name += "-" + std::to_string(type->vram_gb) + "C";
        card.card_mib = type->vram_gb * 1024;
    }
    return gpu_facts(card, host == nullptr ? nowhere : *host, rental.uuids, rental.gpu_fault);
}

void World::set_gpu_fault(Rental& rental, GpuFault fault) {
    rental.gpu_fault = std::move(fault);
    const auto shown = facts(rental);
    if (shown.empty() || !rental.exists()) return;
    machines_->set_gpu_facts(rental.id, shown);
}

}  // namespace gf::sim
