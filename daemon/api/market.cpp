// What the providers offer and how they are doing, from the published view.
#include <algorithm>
#include <tuple>

#include "daemon/api/handlers.hpp"
#include "daemon/api/json_views.hpp"
#include "daemon/api/list_page.hpp"

namespace gf::api {

Result<std::vector<std::string>> cards_in_query(const Call& call) {
    const auto* gpu = call.request.query_value("gpu");
    if (gpu == nullptr || gpu->empty()) return std::vector<std::string>{};
    auto typed = call.context().options.gpus->typed(*gpu);
    if (!typed.canonical.empty()) return std::move(typed.canonical);
    std::string hint;
    for (const auto& s : typed.suggestions) hint += (hint.empty() ? "; did you mean " : ", ") + s;
    return fail(Error{.kind = ErrorKind::malformed, .message = *gpu + " is not a known GPU" + hint, .field = "gpu"});
}

void list_offers(Call call) {
    const auto view = call.context().core.view();
    const auto* provider = call.request.query_value("provider");
    const auto names = cards_in_query(call);
    if (!names) return fail_with(call, names.error());
    if (provider != nullptr && !provider->empty() &&
        std::ranges::find(view->providers, ProviderName{*provider}, &ProviderView::name) == view->providers.end()) {
        std::string known;
        for (const auto& p : view->providers) known += (known.empty() ? "" : ", ") + p.name.get();
        return fail_with(call, Error{.kind = ErrorKind::malformed, .message = "there is no provider " + *provider + " here, only " + known,
                                     .field = "provider"});
    }
    std::vector<const Offer*> chosen;
    for (const auto& offer : view->offers) {
        if (provider != nullptr && !provider->empty() && offer.provider.get() != *provider) continue;
        if (!names->empty() && std::ranges::find(*names, offer.gpu.canonical) == names->end()) continue;
        chosen.push_back(&offer);
    }
    std::ranges::sort(chosen, {}, [](const Offer* o) { return std::tie(o->gpu_rate, o->provider, o->id); });
    answer_page(call, chosen, [](const Offer* offer) { return offer_view(*offer); });
}

void list_gpus(Call call) { answer_page(call, call.context().options.gpus->cards(), card_view); }

void list_providers(Call call) {
    const auto& url = call.context().options.advertise_url;
    answer_page(call, call.context().core.view()->providers, [&url](const ProviderView& provider) {
        auto out = provider_view(provider);
        if (!provider.capabilities.is_local) out["advertise_url"] = url.empty() ? Json(nullptr) : Json(url);
        return out;
    });
}

}  // namespace gf::api
