// What the doctor asks for: whether each provider can be used, and whether rented machines can find the daemon.
#include "daemon/api/handlers.hpp"
#include "daemon/api/json_views.hpp"

namespace gf::api {
namespace {

std::string_view text(Finding::Level level) {
    switch (level) {
        case Finding::Level::ok: return "ok";
        case Finding::Level::warning: return "warning";
        case Finding::Level::failed: return "failed";
    }
    GF_ASSERT(false);
}

}  // namespace

void check_providers(Call call) {
    auto& core = call.api->core;
    auto* loop = &call.api->loop;
    core.check_providers([loop, answer = std::move(call.answer)](const std::vector<CheckLine>& lines) {
        Json out;
        out["items"] = Json::array();
        for (const auto& line : lines) {
            Json item;
            item["provider"] = line.provider;
            item["level"] = text(line.finding.level);
            item["what"] = line.finding.what;
            item["text"] = line.finding.text;
            out["items"].push_back(std::move(item));
        }
        out["next_cursor"] = nullptr;
        loop->enqueue([answer, body = dump(out)] { answer(http::json(200, body)); });
    });
}

}  // namespace gf::api
