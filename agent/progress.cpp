#include "agent/progress.hpp"

#include <fcntl.h>
#include <re2/re2.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <nlohmann/json.hpp>

namespace gf::agent {
namespace {

constexpr std::size_t kPieceBytes = 256 * 1024;
constexpr int kPiecesPerLook = 32;

std::optional<std::int64_t> plain_number(std::string_view text) {
    std::string digits;
    for (const char c : text)
        if (c != ',' && c != '_') digits.push_back(c);
    std::int64_t value = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || read.ec != std::errc{} || value < 0) return std::nullopt;
    return value;
}

std::optional<std::int64_t> json_number(const nlohmann::json& line, const char* key) {
    const auto found = line.find(key);
    if (found == line.end()) return std::nullopt;
    if (found->is_number_unsigned()) {
        const auto value = found->get<std::uint64_t>();
        if (value <= static_cast<std::uint64_t>(INT64_MAX)) return static_cast<std::int64_t>(value);
    }
    if (found->is_number_float()) {
        const auto value = found->get<double>();  // trainers write 120.0
        if (value >= 0 && value < 9e15) return static_cast<std::int64_t>(value);
    }
    return std::nullopt;
}

}  // namespace

struct ProgressPattern::Compiled {
    explicit Compiled(const std::string& pattern) : re(pattern, quiet()) {}
    static RE2::Options quiet() {
        RE2::Options options;
        options.set_log_errors(false);
        options.set_encoding(RE2::Options::EncodingLatin1);  // output is bytes, not always UTF-8
        return options;
    }
    RE2 re;
};

ProgressPattern::ProgressPattern(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
ProgressPattern::ProgressPattern(ProgressPattern&&) noexcept = default;
ProgressPattern::~ProgressPattern() = default;

Result<ProgressPattern> ProgressPattern::compile(const std::string& pattern) {
    auto compiled = std::make_unique<Compiled>(pattern);
    if (!compiled->re.ok()) return fail(ErrorKind::invalid, "progress.regex: " + compiled->re.error());
    if (compiled->re.NumberOfCapturingGroups() < 1)
        return fail(ErrorKind::invalid, "progress.regex: a group for the step is missing");
    return ProgressPattern(std::move(compiled));
}

std::optional<ProgressPoint> ProgressPattern::match(std::string_view line) const {
    const int groups = compiled_->re.NumberOfCapturingGroups();
    re2::StringPiece parts[3];
    const re2::StringPiece text(line.data(), line.size());
    if (!compiled_->re.Match(text, 0, text.size(), RE2::UNANCHORED, parts, groups >= 2 ? 3 : 2)) return std::nullopt;
    const auto step = plain_number({parts[1].data(), parts[1].size()});
    if (!step) return std::nullopt;
    ProgressPoint point{.step = *step};
    if (groups >= 2 && parts[2].data()) point.total = plain_number({parts[2].data(), parts[2].size()}).value_or(0);
    return point;
}

std::optional<ProgressPoint> progress_of_json(std::string_view text) {
    const auto line = nlohmann::json::parse(text, nullptr, false);
    if (!line.is_object()) return std::nullopt;
    const auto step = json_number(line, "step");
    if (!step) return std::nullopt;
    return ProgressPoint{.step = *step, .total = json_number(line, "total").value_or(0)};
}

ProgressWatch::ProgressWatch(std::string spool_folder, const std::string& pattern, std::string file)
    : spool_(std::move(spool_folder)),
      file_(std::move(file)),
      output_lines_([this](std::string_view line) {
          if (const auto point = pattern_->match(line)) newest_ = point;
      }),
      file_lines_([this](std::string_view line) {
          if (const auto point = progress_of_json(line)) newest_ = point;
      }) {
    if (pattern.empty()) return;
    if (auto compiled = ProgressPattern::compile(pattern)) pattern_.emplace(*std::move(compiled));
}
ProgressWatch::~ProgressWatch() = default;

bool ProgressWatch::look() {
    const auto before = newest_;
    if (pattern_) {
        for (int i = 0; i < kPiecesPerLook; ++i) {
            const auto piece = spool_.read(spool_at_, kPieceBytes);
            if (!piece) break;
            spool_at_ = piece->offset + static_cast<std::int64_t>(piece->bytes.size());
            output_lines_.feed(piece->bytes);
        }
    } else {
        spool_at_ = INT64_MAX;  // nobody waits for this reader
    }
    if (!file_.empty())
        for (int i = 0; i < kPiecesPerLook && read_file(); ++i) continue;
    return newest_ != before;
}

bool ProgressWatch::read_file() {
    const Descriptor file(::open(file_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat st{};
    if (!file || ::fstat(file.get(), &st) != 0 || !S_ISREG(st.st_mode)) return false;
    if (st.st_size < file_at_) file_at_ = 0;  // begun anew
    std::string bytes(kPieceBytes, '\0');
    const auto got = ::pread(file.get(), bytes.data(), bytes.size(), file_at_);
    if (got <= 0) return false;
    file_at_ += got;
    file_lines_.feed({bytes.data(), static_cast<std::size_t>(got)});
    return true;
}

}  // namespace gf::agent
