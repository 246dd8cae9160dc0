#include "scheduler/spot_hazard.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace gf {
namespace {

struct Band {
    double to_h;    // ages below this
    double chance;  // that the spell ends within ten minutes
};
constexpr double kForEver = std::numeric_limits<double>::infinity();
constexpr std::array<Band, 8> kUp{{{1 / 6.0, .33},
                                   {2 / 6.0, .21},
                                   {4 / 6.0, .14},
                                   {8 / 6.0, .090},
                                   {16 / 6.0, .050},
                                   {32 / 6.0, .033},
                                   {64 / 6.0, .020},
                                   {kForEver, .011}}};
constexpr std::array<Band, 8> kDown{{{1 / 6.0, .43},
                                     {2 / 6.0, .29},
                                     {4 / 6.0, .20},
                                     {8 / 6.0, .115},
                                     {16 / 6.0, .052},
                                     {32 / 6.0, .039},
                                     {64 / 6.0, .026},
                                     {kForEver, .012}}};

const std::array<Band, 8>& bands(Spell spell) {
    return spell == Spell::up ? kUp : kDown;
}

double rate_of(const Band& band) {
    return -6.0 * std::log1p(-band.chance);
}

}  // namespace

double spell_rate(Spell spell, double age_h) {
    for (const auto& band : bands(spell)) {
        if (age_h < band.to_h) return rate_of(band);
    }
    return rate_of(bands(spell).back());
}

double spell_hazard(Spell spell, double from_h, double to_h) {
    double sum = 0;
    for (const auto& band : bands(spell)) {
        const double end = std::min(band.to_h, to_h);
        if (end > from_h) {
            sum += (end - from_h) * rate_of(band);
            from_h = end;
        }
    }
    return sum;
}

double spell_remaining(Spell spell, double age_h, double multiplier, double horizon_h) {
    const double last = age_h + horizon_h;
    double alive = 1;
    double hours = 0;
    for (const auto& band : bands(spell)) {
        const double end = std::min(band.to_h, last);
        if (end <= age_h) continue;
        const double rate = std::max(rate_of(band) * multiplier, 1e-9);
        const double survive = std::exp(-rate * (end - age_h));
        hours += alive * (1 - survive) / rate;
        alive *= survive;
        age_h = end;
    }
    return hours;
}

}  // namespace gf
