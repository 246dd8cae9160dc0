#include "simulator/vultr_face.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace gf::sim {

namespace {

using nlohmann::json;

std::optional<std::uint64_t> number_of(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

/// Calls that need no key.
bool is_open(const HttpRequest& request, const std::vector<std::string>& path) {
    if (request.method != "GET") return false;
    if (path.size() == 1) {
        return path[0] == "regions" || path[0] == "plans" || path[0] == "plans-metal" || path[0] == "os" ||
               path[0] == "applications";
    }
    if (path.size() == 2) return path[0] == "object-storage" && path[1] == "clusters";
    return path.size() == 3 && path[0] == "regions" && path[2] == "availability";
}

}  // namespace

HttpResponse vultr_error(int status, const std::string& text) {
    return json_response(status, {{"error", text}, {"status", status}});
}

HttpResponse vultr_no_content() {
    return {.status = 204, .type = {}, .body = {}, .headers = {}, .cut = false};
}

double vultr_cents(std::int64_t micros) {
    return std::round(static_cast<double>(micros) / 1e4) / 100.0;
}

std::optional<HttpResponse> VultrFace::refuse_caller(const HttpRequest& request, bool open) const {
    const auto& settings = world_.settings();
    const auto key = request.bearer();
    if (open && !key) return std::nullopt;
    if (!key || key->empty() || (!settings.vultr_key.empty() && *key != settings.vultr_key))
        return vultr_error(401, "Invalid API token.");
    if (!settings.vultr_allowed_ip.empty() && settings.vultr_allowed_ip != request.peer)
        return vultr_error(401, "Unauthorized IP address: " + request.peer);
    return std::nullopt;
}

std::optional<HttpResponse> VultrFace::too_frequent(const HttpRequest& request) {
    const auto& settings = world_.settings();
    if (settings.vultr_per_second <= 0) return std::nullopt;
    const auto most = static_cast<double>(settings.vultr_per_second);
    const auto wait = buckets_.refuse(request.peer, most, most, world_.now());
    if (!wait) return std::nullopt;
    auto response = vultr_error(settings.vultr_limit_503 ? 503 : 429,
                                "Rate limit reached - please try your request again later.");
    response.headers.emplace_back("Retry-After", std::to_string((wait->count() + 999) / 1000));
    return response;
}

HttpResponse VultrFace::handle(const HttpRequest& request) {
    const auto& segments = request.segments;
    if (segments.size() < 2 || segments[0] != "v2") return vultr_error(404, "Invalid API path");
    const Path path(segments.begin() + 1, segments.end());
    if (auto refused = too_frequent(request)) return *refused;
    if (auto refused = refuse_caller(request, is_open(request, path))) return *refused;
    return route(request, path);
}

HttpResponse VultrFace::route(const HttpRequest& request, const Path& path) {
    const auto& area = path[0];
    const bool get = request.method == "GET";
    if (path.size() == 1 && get) {
        if (area == "plans") return plans(request, false);
        if (area == "plans-metal") return plans(request, true);
        if (area == "regions") return regions(request);
        if (area == "os") return systems(request);
        if (area == "applications") return applications(request);
        if (area == "account") return account();
    }
    if (area == "regions" && path.size() == 3 && path[2] == "availability" && get)
        return availability(request, path[1]);
    if (area == "instances") return route_machines(request, path, false);
    if (area == "bare-metals") return route_machines(request, path, true);
    if (area == "ssh-keys") return ssh_keys(request, path);
    if (area == "startup-scripts") return scripts(request, path);
    if (area == "vpcs") return vpcs(request, path);
    if (area == "firewalls") return firewalls(request, path);
    if (area == "blocks") return blocks(request, path);
    if (area == "billing" && get) return billing(request, path);
    if (area == "account" && path.size() == 2 && path[1] == "bandwidth" && get) {
        return json_response(200, {{"bandwidth",
                                    {{"current_month_to_date", {{"gb_in", 0}, {"gb_out", 0}}},
                                     {"current_month_projected", {{"gb_in", 0}, {"gb_out", 0}}}}}});
    }
    if (area == "object-storage" && path.size() == 2 && path[1] == "clusters" && get) {
        return paged(
            request, "clusters",
            {{1, {{"id", 2}, {"region", "ewr"}, {"hostname", "ewr1.vultrobjects.com"}, {"deploy", "yes"}}}});
    }
    return vultr_error(404, "Invalid API path");
}

HttpResponse VultrFace::paged(const HttpRequest& request, const char* key, const Rows& rows) const {
    constexpr std::uint64_t kMost = 500;
    const auto& settings = world_.settings();
    std::uint64_t per_page = 100;
    if (const auto text = request.query_value("per_page")) {
        const auto value = number_of(*text);
        if (!value || *value == 0) return vultr_error(400, "Invalid per_page value.");
        if (*value > kMost && !settings.vultr_per_page_clamps)
            return vultr_error(400, "per_page must not be greater than 500.");
        per_page = std::min(*value, kMost);
    }
    per_page = std::min(per_page, static_cast<std::uint64_t>(std::max(1, settings.vultr_page_max)));
    // A cursor names the first row of its page, so that rows that go or come meanwhile shift nothing.
    std::uint64_t from = 0;
    if (const auto text = request.query_value("cursor"); text && !text->empty()) {
        const auto decoded = base64_decoded(*text).value_or("");
        const bool known = decoded.starts_with("next__") || decoded.starts_with("prev__");
        const auto value = known ? number_of(std::string_view{decoded}.substr(6)) : std::nullopt;
        if (!value) return vultr_error(400, "Invalid cursor.");
        from = *value;
    }
    const auto begin = std::ranges::lower_bound(rows, from, {}, &Rows::value_type::first);
    json page = json::array();
    auto it = begin;
    for (; it != rows.end() && page.size() < per_page; ++it) page.push_back(it->second);
    std::string next;
    std::string previous;
    if (it != rows.end()) next = base64_encoded(fmt::format("next__{}", it->first));
    if (begin != rows.begin()) {
        const auto before = std::min(static_cast<std::ptrdiff_t>(per_page), begin - rows.begin());
        previous = base64_encoded(fmt::format("prev__{}", (begin - before)->first));
    }
    return json_response(
        200,
        {{key, page}, {"meta", {{"total", rows.size()}, {"links", {{"next", next}, {"prev", previous}}}}}});
}

}  // namespace gf::sim
