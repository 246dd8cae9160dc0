#include "providers/local/machine_file.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace gf::local {

RecordTemplate record_template(const MachineFile& file) {
    const nlohmann::json body{{"version", 1},
                              {"tag", file.tag},
                              {"offer", file.offer},
                              {"gpu_name", file.gpu_name},
                              {"gpu_memory", file.gpu_memory},
                              {"gpus", file.gpus},
                              {"rate_micros", file.rate.micros},
                              {"created_ms", file.created_ms},
                              {"boot_id", file.process.boot_id}};
    auto text = body.dump();
    text.pop_back();  // the closing brace comes after the numbers
    return {.before_pid = text + ",\"pid\":", .between = ",\"start_time\":", .after_start_time = "}\n"};
}

Result<std::optional<MachineFile>> read_machine_file(const std::filesystem::path& path) {
    std::error_code error;
    if (!std::filesystem::exists(path, error)) {
        if (error)
            return fail(ErrorKind::io,
                        fmt::format("local: {} cannot be looked at: {}", path.string(), error.message()));
        return std::optional<MachineFile>{};
    }
    std::ifstream in(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    if (!in && text.empty())
        return fail(ErrorKind::io, fmt::format("local: {} cannot be read", path.string()));
    const auto json = nlohmann::json::parse(text, nullptr, false);
    try {
        if (json.at("version").get<int>() != 1)
            return fail(ErrorKind::malformed, fmt::format("local: {}: unknown version", path.string()));
        MachineFile f;
        f.tag = json.at("tag").get<std::string>();
        f.offer = json.at("offer").get<std::string>();
        f.gpu_name = json.at("gpu_name").get<std::string>();
        f.gpu_memory = json.at("gpu_memory").get<std::int64_t>();
        f.gpus = json.at("gpus").get<std::vector<std::string>>();
        f.rate = UsdPerHour{json.at("rate_micros").get<std::int64_t>()};
        f.created_ms = json.at("created_ms").get<std::int64_t>();
        f.process.pid = json.at("pid").get<pid_t>();
        f.process.start_time = json.at("start_time").get<std::uint64_t>();
        f.process.boot_id = json.at("boot_id").get<std::string>();
        return std::optional(std::move(f));
    } catch (const nlohmann::json::exception&) {
        return fail(ErrorKind::malformed, fmt::format("local: {} is no machine record", path.string()));
    }
}

}  // namespace gf::local
