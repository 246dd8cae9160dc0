#include "daemon/api/context.hpp"
#include "daemon/core.hpp"

#include <sys/random.h>

#include <charconv>

namespace gf::api {
namespace {

std::uint64_t system_seed() {
    std::uint64_t seed = 0;
    GF_ASSERT(::getrandom(&seed, sizeof seed, 0) == static_cast<ssize_t>(sizeof seed));
    return seed;
}

Error bad_query(std::string_view key, std::string message) {
    return Error{.kind = ErrorKind::malformed, .message = std::move(message), .field = std::string(key)};
}

Error bad_cursor() { return bad_query("cursor", "cursor is not one that this server gave"); }

}  // namespace

Context::Context(http::Loop& l, CorePort& c, ServerOptions o)
    : loop(l), core(c), options(std::move(o)), wakeups(std::make_shared<http::Wakeups>(l)), ids(Entropy(system_seed())) {}

void answer_json(const Call& call, int status, std::string body) { call.answer(http::json(status, std::move(body))); }

void fail_with(const Call& call, const Error& error) { call.answer(http::problem(error)); }

namespace {

/// A reader for one piece of work: an idle one, or a further connection to the database. As many are kept as ever ran at
/// once, which is at most the number of blocking threads.
Result<std::unique_ptr<Reader>> take_reader(Context& context) {
    {
        const std::scoped_lock lock(context.background_mutex);
        if (!context.background_readers.empty()) {
            auto reader = std::move(context.background_readers.back());
            context.background_readers.pop_back();
            return reader;
        }
    }
    return context.options.open_reader();
}

}  // namespace

void in_background(Call call, std::function<http::Response(const Call&, Reader&)> work) {
    auto& loop = call.api->loop;
    const auto shared = std::make_shared<Call>(std::move(call));
    loop.work([shared, work = std::move(work)] {
        auto& context = *shared->api;
        http::Response made;
        if (auto reader = take_reader(context)) {
            made = work(*shared, **reader);
            const std::scoped_lock lock(context.background_mutex);
            context.background_readers.push_back(*std::move(reader));
        } else {
            made = http::problem(reader.error());
        }
        const auto response = std::make_shared<http::Response>(std::move(made));
        shared->api->loop.enqueue([shared, response] { shared->answer(std::move(*response)); });
    });
}

http::Response response_of(const ApiResult& result) {
    if (result.status >= 400 || result.error) {
        const Error error = result.error.value_or(Error{.kind = ErrorKind::io, .message = "the request failed"});
        auto response = http::problem(error);
        // The core's status says more than the error's kind: a used key with another body is 422, not 409.
        if (result.status >= 400 && result.status != response.status) {
            std::vector<http::FieldError> errors;
            if (!error.field.empty()) errors.push_back({.field = error.field, .message = error.message, .range = {}});
            auto headers = std::move(response.headers);
            response = http::problem(result.status, error.message, errors);
            response.headers = std::move(headers);
        }
        return response;
    }
    auto response = http::json(result.status, result.json.empty() ? "{}" : result.json);
    if (!result.location.empty()) response.headers.emplace_back("Location", result.location);
    return response;
}

void ask_core(Call call, Event event) {
    auto& core = call.api->core;
    auto* loop = &call.api->loop;
    // The reply comes on the core's thread; many in a row cost the loop one wake-up.
    core.post(std::move(event), [loop, answer = std::move(call.answer)](ApiResult result) {
        loop->enqueue([answer, result = std::move(result)] { answer(response_of(result)); });
    });
}

std::optional<JobRecord> find_job(const Call& call) {
    const auto id = call.job();
    if (!id.get().starts_with("job_") || id_body(id.get()).empty()) {
        call.answer(http::problem(404, "there is no job " + id.get()));
        return std::nullopt;
    }
    auto found = call.reader().job(id);
    if (!found) {
        fail_with(call, found.error());
        return std::nullopt;
    }
    if (!*found) call.answer(http::problem(404, "there is no job " + id.get()));
    return *std::move(found);
}

Result<std::int64_t> number_in_query(const http::Request& request, std::string_view key, std::int64_t fallback,
                                     std::int64_t low, std::int64_t high) {
    const auto* text = request.query_value(key);
    if (text == nullptr) return fallback;
    std::int64_t value = 0;
    const auto* end = text->data() + text->size();
    const auto [stop, error] = std::from_chars(text->data(), end, value);
    if (error != std::errc{} || stop != end || value < low || value > high)
        return fail(bad_query(key, std::string(key) + " must be a whole number in " + std::to_string(low) + ".." +
                                       std::to_string(high)));
    return value;
}

Result<bool> flag_in_query(const http::Request& request, std::string_view key) {
    const auto* text = request.query_value(key);
    if (text == nullptr || *text == "0" || *text == "false") return false;
    if (*text == "1" || *text == "true") return true;
    return fail(bad_query(key, std::string(key) + " must be 0 or 1"));
}

Result<Instant> instant_in_query(const http::Request& request, std::string_view key, Instant fallback) {
    const auto* value = request.query_value(key);
    if (value == nullptr || value->empty()) return fallback;
    auto parsed = parse_rfc3339(*value);
    if (!parsed) parsed = parse_rfc3339(*value + "T00:00:00Z");  // a day stands for its beginning in UTC
    if (!parsed)
        return fail(bad_query(key, std::string(key) + " must be a time (RFC 3339) or a day like 2026-11-30"));
    return *parsed;
}

Result<Page> page_of(const http::Request& request) {
    const auto limit = number_in_query(request, "limit", 50, 1, kPageMax);
    if (!limit) return fail(limit.error());
    Page page{.limit = static_cast<int>(*limit), .cursor = {}};
    if (const auto* cursor = request.query_value("cursor")) page.cursor = *cursor;
    if (page.cursor.size() > 128) return fail(bad_cursor());
    return page;
}

Result<std::int64_t> number_of_cursor(const Page& page) {
    if (page.cursor.empty()) return 0;
    std::int64_t number = 0;
    const auto* end = page.cursor.data() + page.cursor.size();
    const auto [stop, error] = std::from_chars(page.cursor.data(), end, number);
    // The bound keeps a cursor and a page after it far from the end of the type.
    if (error != std::errc{} || stop != end || number < 0 || number > std::int64_t{1} << 60) return fail(bad_cursor());
    return number;
}

Result<void> check_id_cursor(const Page& page, std::string_view prefix) {
    if (page.cursor.empty() || (page.cursor.starts_with(prefix) && !id_body(page.cursor).empty())) return {};
    return fail(bad_cursor());
}

}  // namespace gf::api
