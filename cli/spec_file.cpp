#include "cli/spec_file.hpp"

#include <fmt/core.h>
#include <fmt/ostream.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <istream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/code_folder.hpp"
#include "cli/exit_code.hpp"
#include "cli/progress_bar.hpp"
#include "config/job_spec_parser.hpp"
#include "model/bytes.hpp"

namespace gf::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kCheckFirstAbove =
    1 << 20;  // tar bytes from which a bad spec is found before the upload

/// A file that goes away with this object.
class TemporaryFile {
 public:
    static Outcome<TemporaryFile> make(const Environment& env) {
        std::string folder = env.variable ? env.variable("TMPDIR").value_or("") : "";
        if (folder.empty()) folder = "/tmp";
        std::string path = folder + "/gpuferry-code-XXXXXX";
        const int fd = mkstemp(path.data());
        if (fd < 0)
            return failed(kExitRefused,
                          fmt::format("cannot make a file in {}: {}", folder, std::strerror(errno)));
        close(fd);
        return TemporaryFile(std::move(path));
    }
    TemporaryFile(TemporaryFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}
    TemporaryFile& operator=(TemporaryFile&&) = delete;
    ~TemporaryFile() {
        if (!path_.empty()) unlink(path_.c_str());
    }
    [[nodiscard]] const std::string& path() const { return path_; }

 private:
    explicit TemporaryFile(std::string path) : path_(std::move(path)) {}
    std::string path_;
};

std::string read_up_to(std::istream& from, std::size_t bytes_max) {
    std::string text(bytes_max, '\0');
    from.read(text.data(), static_cast<std::streamsize>(bytes_max));
    text.resize(static_cast<std::size_t>(from.gcount()));
    return text;
}

Outcome<void> upload_blob(Context& context, const CodePack& pack, const std::string& tar) {
    const auto path = path_of({"v1", "blobs", pack.sha256});
    ProgressBar bar(context.env, context.style, "sending code", pack.bytes);
    Call put{.method = "PUT",
             .path = path,
             .content_type = "application/octet-stream",
             .upload_file = tar,
             .total = std::chrono::milliseconds{0}};
    put.progress = [&bar](std::int64_t done, std::int64_t) { bar.show(done); };
    // Named by its hash, so that sending it again changes nothing: a cut connection is simply tried once
    // more.
    auto answer = context.client.send_json(put);
    if (!answer && answer.error().status == 0 && !was_interrupted(context.env))
        answer = context.client.send_json(put);
    if (!answer) return std::unexpected(std::move(answer).error());
    return {};
}

}  // namespace

Outcome<SpecFile> read_spec(const std::string& name, Environment& env) {
    SpecFile spec;
    spec.shown.name = name;
    spec.folder = ".";
    if (name == "-") {
        spec.shown.text = read_up_to(env.in, kSpecBytesMax + 1);
    } else {
        std::error_code error;
        if (fs::is_directory(name, error))
            return failed(kExitRefused, fmt::format("{} is a folder, not a job spec", name));
        std::ifstream file(name, std::ios::binary);
        if (!file) return failed(kExitRefused, fmt::format("cannot read {}: {}", name, std::strerror(errno)));
        spec.shown.text = read_up_to(file, kSpecBytesMax + 1);
        if (const auto parent = fs::path(name).parent_path(); !parent.empty()) spec.folder = parent.string();
    }
    const std::string& text = spec.shown.text;
    if (text.size() > kSpecBytesMax)
        return failed(kExitRefused, fmt::format("{} is larger than the {} bytes that a spec may have", name,
                                                kSpecBytesMax));
    const auto first = text.find_first_not_of(" \t\r\n");
    const bool braces = first != std::string::npos && text[first] == '{';
    spec.yaml = !name.ends_with(".json") && (name.ends_with(".yaml") || name.ends_with(".yml") || !braces);
    return spec;
}

Outcome<std::string> spec_to_send(Context& context, const SpecFile& spec, bool upload) {
    const auto format = spec.yaml ? SpecFormat::yaml : SpecFormat::json;
    const auto code = code_of_spec(spec.shown.text, format);
    if (!code || code->empty() || code->starts_with("sha256:")) return spec.shown.text;
    auto tar = TemporaryFile::make(context.env);
    if (!tar) return std::unexpected(std::move(tar).error());
    const auto folder = (fs::path(spec.folder) / *code).lexically_normal().string();
    auto pack = pack_code(folder, tar->path(), context.env.interrupted);
    if (!pack) return std::unexpected(std::move(pack).error());
    for (const auto& text : pack->notes) fmt::print(context.env.err, "note: {}\n", shown(text));
    auto text = spec_with_code(spec.shown.text, format, pack->sha256);
    if (!text) return failed(kExitRefused, fmt::format("{}: {}", spec.shown.name, text.error().message));
    if (!upload) return *std::move(text);
    if (pack->bytes > kCodeBytesMax)
        return failed(kExitRefused,
                      fmt::format("the packed code folder has {} bytes, the limit is 4 GiB ({} bytes)",
                                  pack->bytes, kCodeBytesMax));
    auto there = context.client.send(Call{.method = "HEAD", .path = path_of({"v1", "blobs", pack->sha256})});
    if (!there) return std::unexpected(std::move(there).error());
    if (there->status == 401 || there->status == 403)
        return std::unexpected(refusal(*there, "HEAD /v1/blobs"));
    if (there->status >= 200 && there->status < 300) return *std::move(text);
    if (pack->bytes > kCheckFirstAbove) {
        auto plan = context.client.send_json(
            Call{.method = "POST", .path = "/v1/plan", .body = *text, .content_type = spec.content_type()});
        if (!plan && (plan.error().status == 400 || plan.error().status == 422))
            return std::unexpected(plan.error());
    }
    if (auto ok = upload_blob(context, *pack, tar->path()); !ok)
        return std::unexpected(std::move(ok).error());
    if (!context.json)
        fmt::print(context.env.err, "sent {} files of code, {}\n", pack->files,
                   bytes_text(Bytes{pack->bytes}));
    return *std::move(text);
}

}  // namespace gf::cli
