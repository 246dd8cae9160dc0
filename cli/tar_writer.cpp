#include "cli/tar_writer.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "cli/exit_code.hpp"
#include "model/result.hpp"

namespace gf::cli {
namespace {

constexpr std::int64_t kBlock = 512;
constexpr std::int64_t kOctalSizeMax =
    077777777777;  // what the 11 octal digits of ustar hold: 8 GiB less one

/// A ustar head. Offsets and lengths are those of POSIX.1-2017, pax, "ustar Interchange Format".
struct Head {
    std::array<char, 512> bytes{};
    void text(std::size_t at, std::size_t length, std::string_view value) {
        std::memcpy(bytes.data() + at, value.data(), std::min(length, value.size()));
    }
    void octal(std::size_t at, std::size_t length, std::int64_t value) {
        text(at, length, fmt::format("{:0{}o}", value, length - 1));
    }
    void checksum() {
        std::memset(bytes.data() + 148, ' ', 8);
        unsigned sum = 0;
        for (const char c : bytes) sum += static_cast<unsigned char>(c);
        text(148, 8, fmt::format("{:06o}", sum));
        bytes[154] = '\0';
    }
};

/// "<length> key=value\n", where the length counts its own digits.
std::string pax_record(std::string_view key, std::string_view value) {
    const std::size_t rest = key.size() + value.size() + 3;  // blank, "=", line break
    std::size_t length = rest + 1;
    while (std::to_string(length).size() + rest != length) ++length;
    return fmt::format("{} {}={}\n", length, key, value);
}

/// Where a long name can be cut so that both parts fit prefix (155) and name (100); npos = nowhere.
std::size_t ustar_split(const std::string& name) {
    if (name.size() > 256) return std::string::npos;
    for (std::size_t at = name.size() > 101 ? name.size() - 101 : 0; at < name.size() && at <= 155; ++at)
        if (name[at] == '/' && at > 0 && at + 1 < name.size()) return at;
    return std::string::npos;
}

}  // namespace

struct TarWriter::Out {
    std::FILE* file{nullptr};
    EVP_MD_CTX* hash{EVP_MD_CTX_new()};
    std::string path;
    Out() = default;
    Out(const Out&) = delete;
    Out& operator=(const Out&) = delete;
    ~Out() {
        if (file != nullptr) std::fclose(file);
        EVP_MD_CTX_free(hash);
    }
};

TarWriter::TarWriter(std::unique_ptr<Out> out) : out_(std::move(out)) {}
TarWriter::TarWriter(TarWriter&&) noexcept = default;
TarWriter& TarWriter::operator=(TarWriter&&) noexcept = default;
TarWriter::~TarWriter() = default;

Outcome<TarWriter> TarWriter::create(const std::string& path) {
    auto out = std::make_unique<Out>();
    out->path = path;
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return failed(kExitRefused, fmt::format("cannot write {}: {}", path, std::strerror(errno)));
    out->file = fdopen(fd, "wb");
    if (out->hash == nullptr || EVP_DigestInit_ex(out->hash, EVP_sha256(), nullptr) != 1)
        return failed(kExitRefused, "SHA-256 is not available");
    return TarWriter(std::move(out));
}

Outcome<void> TarWriter::put(std::string_view bytes) {
    if (std::fwrite(bytes.data(), 1, bytes.size(), out_->file) != bytes.size())
        return failed(kExitRefused, fmt::format("cannot write {}: {}", out_->path, std::strerror(errno)));
    EVP_DigestUpdate(out_->hash, bytes.data(), bytes.size());
    bytes_ += static_cast<std::int64_t>(bytes.size());
    return {};
}

Outcome<void> TarWriter::pad() {
    const auto over = bytes_ % kBlock;
    return over == 0 ? Outcome<void>{} : put(std::string(static_cast<std::size_t>(kBlock - over), '\0'));
}

Outcome<void> TarWriter::header(const TarEntry& entry, char type, const std::string& name,
                                const std::string& target) {
    Head head;
    const auto split = name.size() > 100 ? ustar_split(name) : std::string::npos;
    if (split == std::string::npos) {
        head.text(0, 100, name);
    } else {
        head.text(345, 155, std::string_view(name).substr(0, split));
        head.text(0, 100, std::string_view(name).substr(split + 1));
    }
    const bool open_to_run = entry.executable || entry.kind == TarKind::directory;
    head.octal(100, 8, type == 'x' ? 0644 : entry.kind == TarKind::link ? 0777 : open_to_run ? 0755 : 0644);
    head.octal(108, 8, 0);
    head.octal(116, 8, 0);
    head.octal(124, 12, entry.size <= kOctalSizeMax ? entry.size : 0);
    head.octal(136, 12, std::max<std::int64_t>(entry.mtime_s, 0));
    head.bytes[156] = type;
    head.text(157, 100, target);
    head.text(257, 8, std::string_view("ustar\00000", 8));
    head.checksum();
    return put(std::string_view(head.bytes.data(), head.bytes.size()));
}

Outcome<void> TarWriter::begin(const TarEntry& entry) {
    GF_ASSERT(left_ == 0);
    if (auto padded = pad(); !padded) return padded;
    std::string name = entry.name;
    if (entry.kind == TarKind::directory) name += '/';
    const bool name_fits = name.size() <= 100 || ustar_split(name) != std::string::npos;
    std::string pax;
    if (!name_fits) pax += pax_record("path", name);
    if (entry.target.size() > 100) pax += pax_record("linkpath", entry.target);
    if (entry.size > kOctalSizeMax) pax += pax_record("size", std::to_string(entry.size));
    if (!pax.empty()) {
        const TarEntry extension{
            .name = {}, .mtime_s = entry.mtime_s, .size = static_cast<std::int64_t>(pax.size())};
        if (auto ok = header(extension, 'x', "pax/" + name.substr(0, 90), {}); !ok) return ok;
        if (auto ok = put(pax); !ok) return ok;
        if (auto ok = pad(); !ok) return ok;
    }
    char type = '0';
    if (entry.kind == TarKind::directory) type = '5';
    if (entry.kind == TarKind::link) type = '2';
    const bool is_file = entry.kind == TarKind::file;
    auto own = entry;
    own.size = is_file ? entry.size : 0;
    left_ = own.size;
    return header(own, type, name_fits ? name : name.substr(0, 100), entry.target.substr(0, 100));
}

Outcome<void> TarWriter::data(std::string_view bytes) {
    GF_ASSERT(static_cast<std::int64_t>(bytes.size()) <= left_);
    left_ -= static_cast<std::int64_t>(bytes.size());
    return put(bytes);
}

Outcome<std::string> TarWriter::finish() {
    GF_ASSERT(left_ == 0);
    if (auto padded = pad(); !padded) return std::unexpected(padded.error());
    if (auto end = put(std::string(2 * kBlock, '\0')); !end) return std::unexpected(end.error());
    if (std::fflush(out_->file) != 0)
        return failed(kExitRefused, fmt::format("cannot write {}: {}", out_->path, std::strerror(errno)));
    std::array<unsigned char, 32> sum{};
    EVP_DigestFinal_ex(out_->hash, sum.data(), nullptr);
    std::string hex;
    for (const unsigned char byte : sum) hex += fmt::format("{:02x}", byte);
    return hex;
}

}  // namespace gf::cli
