#include "cli/client.hpp"

#include <curl/curl.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/exit_code.hpp"

namespace gf::cli {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kBodyBytesMax = 64 << 20;  // of an answer that is kept in memory
constexpr long kConnectMs = 10'000;
constexpr int kPollMs = 100;
constexpr int kPagesMax = 10'000;

struct SlistFree {
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using Slist = std::unique_ptr<curl_slist, SlistFree>;

struct FileClose {
    void operator()(std::FILE* f) const { std::fclose(f); }
};

/// What the callbacks of one transfer share.
struct Transfer {
    const Call& call;
    Answer answer;
    CURL* easy{nullptr};
    bool too_large{false};
    Clock::time_point last_byte{Clock::now()};
};

std::size_t on_header(char* data, std::size_t size, std::size_t count, void* user) {
    auto& t = *static_cast<Transfer*>(user);
    const std::string_view line(data, size * count);
    t.last_byte = Clock::now();
    if (line.starts_with("HTTP/")) {  // a new head: of the final answer after a 100 Continue
        t.answer.headers.clear();
        return line.size();
    }
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) return line.size();
    std::string name(line.substr(0, colon));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    auto value = line.substr(colon + 1);
    while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
    while (!value.empty() && (value.back() == '\r' || value.back() == '\n' || value.back() == ' '))
        value.remove_suffix(1);
    t.answer.headers[name] = std::string(value);
    return line.size();
}

std::size_t on_body(char* data, std::size_t size, std::size_t count, void* user) {
    auto& t = *static_cast<Transfer*>(user);
    const std::string_view bytes(data, size * count);
    t.last_byte = Clock::now();
    long status = 0;
    curl_easy_getinfo(t.easy, CURLINFO_RESPONSE_CODE, &status);
    if (t.call.sink && status >= 200 && status < 300) {
        if (t.call.sink(bytes)) return bytes.size();
        t.answer.stopped = true;
        return bytes.size() + 1;  // any other number than was given ends the transfer
    }
    if (t.answer.body.size() + bytes.size() > kBodyBytesMax) {
        t.too_large = true;
        return bytes.size() + 1;
    }
    t.answer.body.append(bytes);
    return bytes.size();
}

int on_progress(void* user, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up) {
    auto& t = *static_cast<Transfer*>(user);
    if (!t.call.upload_file.empty() && up > 0) t.last_byte = Clock::now();
    if (t.call.progress) {
        if (up_total > 0 || up > 0)
            t.call.progress(up, up_total);
        else
            t.call.progress(down, down_total);
    }
    return 0;
}

Failure transport_failure(CURLcode code, const Endpoint& endpoint, const char* detail,
                          std::string_view method) {
    const std::string why = detail != nullptr && *detail != '\0' ? detail : curl_easy_strerror(code);
    switch (code) {
        case CURLE_OPERATION_TIMEDOUT:
            return {.exit_code = kExitTimeout,
                    .text = fmt::format("no answer from {} in time: {}", endpoint.shown, why)};
        case CURLE_PEER_FAILED_VERIFICATION:
        case CURLE_SSL_CACERT_BADFILE:
        case CURLE_SSL_CONNECT_ERROR:
            return {.exit_code = kExitConnection,
                    .text = fmt::format(
                        "the certificate of {} was not accepted: {} (--ca FILE names one to trust)",
                        endpoint.shown, why),
                    .never_sent = true};
        case CURLE_COULDNT_CONNECT:
        case CURLE_COULDNT_RESOLVE_HOST:
        case CURLE_COULDNT_RESOLVE_PROXY:
            return {.exit_code = kExitConnection,
                    .text = fmt::format("no daemon at {} ({}); start gpuferryd, or name another one with "
                                        "--url or GPUFERRY_URL",
                                        endpoint.shown, why),
                    .never_sent = true};
        case CURLE_UNSUPPORTED_PROTOCOL:
        case CURLE_WEIRD_SERVER_REPLY:
        case CURLE_HTTP2:
            return {
                .exit_code = kExitUnexpected,
                .text = fmt::format("what answers at {} is not a gpuferry daemon: {}", endpoint.shown, why)};
        default:
            break;
    }
    return {.exit_code = kExitConnection, .text = fmt::format("{} {}: {}", method, endpoint.shown, why)};
}

/// Everything that this client says about each call; what belongs to the call's body comes after it.
void set_options(Transfer& transfer, const std::string& url, const Endpoint& endpoint, char* detail) {
    CURL* easy = transfer.easy;
    const Call& call = transfer.call;
    curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, detail);
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "gpuferry");
    if (!endpoint.socket.empty()) {
        curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, endpoint.socket.c_str());
    }
    // A proxy of the environment is never meant for this machine, and it would read the token.
    if (!endpoint.socket.empty() || endpoint.loopback) curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    if (!endpoint.ca_file.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, endpoint.ca_file.c_str());
    if (call.total.count() > 0) {
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(call.total.count()));
    }
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, &transfer);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(easy, CURLOPT_XFERINFODATA, &transfer);
}

Slist header_lines(const Call& call, const Endpoint& endpoint) {
    Slist lines;
    const auto add = [&lines](const std::string& line) {
        lines.reset(curl_slist_append(lines.release(), line.c_str()));
    };
    // A file is sent only after the server has agreed to it: a refusal costs no upload, and no cut connection can
    // overtake it. (libcurl asks for bodies over 1 MiB, and goes on after a second without a word.) For a small body
    // the question would only be a round trip.
    if (call.upload_file.empty()) add("Expect:");
    if (!endpoint.token.empty()) add("Authorization: Bearer " + endpoint.token.reveal());
    // Without a type of its own libcurl would call the body a form.
    add(call.content_type.empty() ? "Content-Type:" : "Content-Type: " + call.content_type);
    for (const auto& [name, value] : call.headers) add(name + ": " + value);
    return lines;
}

/// Method and body. `upload` keeps the file open for as long as the transfer needs it. False = the file
/// cannot be read.
bool set_body(CURL* easy, const Call& call, std::unique_ptr<std::FILE, FileClose>& upload) {
    if (!call.upload_file.empty()) {
        upload.reset(std::fopen(call.upload_file.c_str(), "rb"));
        struct stat info{};
        if (!upload || fstat(fileno(upload.get()), &info) != 0) return false;
        curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(easy, CURLOPT_READDATA, upload.get());
        curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(info.st_size));
    } else if (call.method == "HEAD") {
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    } else if (call.method != "GET") {
        curl_easy_setopt(easy, CURLOPT_POST, 1L);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(call.body.size()));
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, call.body.data());
    }
    if (call.method != "GET" && call.method != "HEAD")
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call.method.c_str());
    return true;
}

/// Runs the transfer to its end. The multi interface, because a plain perform would answer Ctrl-C up to a
/// second late.
CURLcode drive(CURLM* multi, Transfer& transfer, const Environment& env, char* detail) {
    while (true) {
        int running = 0;
        if (curl_multi_perform(multi, &running) != CURLM_OK) return CURLE_SEND_ERROR;
        int left = 0;
        while (const CURLMsg* message = curl_multi_info_read(multi, &left))
            if (message->msg == CURLMSG_DONE) return message->data.result;
        if (was_interrupted(env)) {
            transfer.answer.stopped = true;
            return CURLE_OK;
        }
        const Call& call = transfer.call;
        const auto silent = Clock::now() - transfer.last_byte;
        if (call.total.count() == 0 && call.stall.count() > 0 && silent > call.stall) {
            std::snprintf(detail, CURL_ERROR_SIZE, "nothing was received for %lld ms",
                          static_cast<long long>(call.stall.count()));
            return CURLE_OPERATION_TIMEDOUT;
        }
        curl_multi_poll(multi, nullptr, 0, kPollMs, nullptr);
    }
}

}  // namespace

struct Client::Handle {
    CURLM* multi{curl_multi_init()};
    CURL* easy{curl_easy_init()};
    ~Handle() {
        if (easy != nullptr) curl_easy_cleanup(easy);
        if (multi != nullptr) curl_multi_cleanup(multi);
    }
};

Client::Client(Endpoint endpoint, Environment& env) : endpoint_(std::move(endpoint)), env_(env) {
    static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
    static_cast<void>(ready);
    handle_ = std::make_unique<Handle>();
}
Client::~Client() = default;

Outcome<Answer> Client::send(const Call& call) {
    CURL* easy = handle_->easy;
    CURLM* multi = handle_->multi;
    if (easy == nullptr || multi == nullptr) return failed(kExitRefused, "libcurl could not start");
    curl_easy_reset(easy);
    Transfer transfer{.call = call, .answer = {}, .easy = easy};
    char detail[CURL_ERROR_SIZE] = "";
    const std::string url = endpoint_.base_url + call.path;
    set_options(transfer, url, endpoint_, detail);
    const auto headers = header_lines(call, endpoint_);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers.get());
    std::unique_ptr<std::FILE, FileClose> upload;
    if (!set_body(easy, call, upload))
        return failed(kExitRefused, fmt::format("cannot read {}", call.upload_file));

    curl_multi_add_handle(multi, easy);
    const CURLcode code = drive(multi, transfer, env_, detail);
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_multi_remove_handle(multi, easy);
    transfer.answer.status = static_cast<int>(status);
    if (const auto date = transfer.answer.headers.find("date"); date != transfer.answer.headers.end())
        if (const auto seconds = curl_getdate(date->second.c_str(), nullptr); seconds > 0)
            daemon_ms_ = static_cast<std::int64_t>(seconds) * 1000;
    if (transfer.answer.stopped) return std::move(transfer.answer);
    if (transfer.too_large)
        return failed(kExitUnexpected, fmt::format("the answer from {} is larger than {} MiB",
                                                   endpoint_.shown, kBodyBytesMax >> 20));
    // A server that refuses an upload early answers and closes: the answer counts, not the broken pipe.
    const bool cut = code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR;
    if (cut && status >= 400) return std::move(transfer.answer);
    if (code != CURLE_OK) return std::unexpected(transport_failure(code, endpoint_, detail, call.method));
    if (status < 200)
        return failed(kExitUnexpected,
                      fmt::format("what answers at {} does not speak HTTP", endpoint_.shown));
    return std::move(transfer.answer);
}

Outcome<nlohmann::json> Client::send_json(const Call& call) {
    auto answer = send(call);
    if (!answer) return std::unexpected(std::move(answer).error());
    if (answer->stopped) return failed(kExitInterrupted, "interrupted");
    const auto what = fmt::format("{} {}", call.method, call.path);
    if (answer->status >= 300) return std::unexpected(refusal(*answer, what));
    if (answer->status == 204 || answer->body.empty()) return nlohmann::json::object();
    auto json = nlohmann::json::parse(answer->body, nullptr, false);
    if (json.is_discarded())
        return failed(kExitUnexpected, fmt::format("{} answered {} {} with something that is not JSON",
                                                   endpoint_.shown, what, answer->status));
    return json;
}

Outcome<nlohmann::json> Client::get_json(const std::string& path) {
    return send_json(Call{.path = path});
}

Outcome<nlohmann::json> Client::get_all(const std::string& path, Query query, std::size_t items_max) {
    auto items = nlohmann::json::array();
    std::string cursor;
    for (int page = 0; page < kPagesMax && items.size() < items_max; ++page) {
        auto with_cursor = query;
        with_cursor.emplace_back("limit",
                                 std::to_string(std::min<std::size_t>(items_max - items.size(), 500)));
        with_cursor.emplace_back("cursor", cursor);
        auto answer = get_json(path + path_of({}, with_cursor));
        if (!answer) return std::unexpected(std::move(answer).error());
        const auto list = answer->find("items");
        if (!answer->is_object() || list == answer->end() || !list->is_array())
            return failed(kExitUnexpected,
                          fmt::format("{} answered GET {} without a list", endpoint_.shown, path));
        for (auto& item : *list) items.push_back(std::move(item));
        const auto next = answer->find("next_cursor");
        if (next == answer->end() || !next->is_string() || next->get_ref<const std::string&>().empty()) break;
        if (next->get_ref<const std::string&>() == cursor) break;  // a server that never moves on
        cursor = next->get<std::string>();
    }
    nlohmann::json whole;
    whole["items"] = std::move(items);
    return whole;
}

std::string path_of(const std::vector<std::string_view>& parts, const Query& query) {
    const auto escaped = [](std::string_view text) {
        std::string safe;
        for (const char c : text) {
            const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                               c == '-' || c == '_' || c == '~' || c == '.';
            if (plain)
                safe += c;
            else
                safe += fmt::format("%{:02X}", static_cast<unsigned char>(c));
        }
        // "." and ".." would be taken as steps up by proxies, even in encoded form: they cannot name
        // anything.
        if (safe == "." || safe == "..") safe = fmt::format("%{:02X}", '.') + safe.substr(1);
        return safe;
    };
    std::string path;
    for (const auto part : parts) path += "/" + escaped(part);
    char separator = '?';
    for (const auto& [name, value] : query) {
        if (value.empty()) continue;
        path += separator + escaped(name) + "=" + escaped(value);
        separator = '&';
    }
    return path;
}

Failure refusal(const Answer& answer, std::string_view what) {
    int code = kExitRefused;
    if (answer.status == 401 || answer.status == 403) code = kExitAuth;
    if (answer.status < 400) code = kExitUnexpected;  // a redirect: the daemon never sends one
    Failure failure{
        .exit_code = code, .text = fmt::format("{}: HTTP {}", what, answer.status), .status = answer.status};
    if (const auto type = answer.headers.find("content-type");
        type != answer.headers.end() && type->second.find("json") != std::string::npos)
        failure.problem = answer.body;
    if (const auto wait = answer.headers.find("retry-after"); wait != answer.headers.end()) {
        const auto json = nlohmann::json::parse(wait->second, nullptr, false);
        if (json.is_number_integer()) failure.retry_after_s = std::clamp(json.get<int>(), 0, 3600);
    }
    return failure;
}

}  // namespace gf::cli
