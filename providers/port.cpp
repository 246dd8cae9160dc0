#include "providers/port.hpp"

#include <fmt/format.h>

namespace gf {
namespace {

auto not_there(const Provider& p, std::string_view what) {
    return fail(ErrorKind::not_yet, fmt::format("{} has no {}", p.name().get(), what));
}

}  // namespace

Result<void> Provider::rename(const ProviderMachineId&, const std::string&) {
    return not_there(*this, "names that can be changed");
}

Result<void> Provider::raise_bid(const ProviderMachineId&, UsdPerHour) {
    return not_there(*this, "bids");
}

Result<std::vector<Charge>> Provider::charges(Instant, Instant) {
    return not_there(*this, "billing records");
}

std::vector<Finding> Provider::check() {
    const auto listed = list();
    if (!listed)
        return {{.level = Finding::Level::failed, .what = "listing", .text = listed.error().message}};
    return {{.level = Finding::Level::ok,
             .what = "listing",
             .text = fmt::format("{} machines", listed->machines.size())}};
}

Result<void> Provider::tidy() {
    return {};
}

}  // namespace gf
