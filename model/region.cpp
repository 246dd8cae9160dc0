#include "model/region.hpp"

#include <array>
#include <utility>

namespace gf {
namespace {

// Each list is codes of two letters, separated by spaces; continents as the United Nations draw them, with
// RU and TR in Europe and CY in Asia as well as in the EU.
constexpr std::string_view kEu =
    "AT BE BG HR CY CZ DK EE FI FR DE GR HU IE IT LV LT LU MT NL PL PT RO SK SI ES SE";
constexpr std::string_view kEea =
    "AT BE BG HR CY CZ DK EE FI FR DE GR HU IE IT LV LT LU MT NL PL PT RO SK SI ES SE IS LI NO";
constexpr std::string_view kEurope =
    "AD AL AT AX BA BE BG BY CH CY CZ DE DK EE ES FI FO FR GB GG GI GR HR HU IE IM IS IT JE LI LT LU LV MC "
    "MD ME MK MT NL "
    "NO PL PT RO RS RU SE SI SJ SK SM TR UA VA XK";
constexpr std::string_view kNorthAmerica =
    "AG AI AW BB BL BM BQ BS BZ CA CR CU CW DM DO GD GL GP GT HN HT JM KN KY LC MF MQ MS MX NI PA PM PR SV "
    "SX TC TT US VC "
    "VG VI";
constexpr std::string_view kSouthAmerica = "AR BO BR CL CO EC FK GF GY PE PY SR UY VE";
constexpr std::string_view kAsia =
    "AE AF AM AZ BD BH BN BT CN GE HK ID IL IN IQ IR JO JP KG KH KP KR KW KZ LA LB LK MM MN MO MV MY NP OM "
    "PH PK PS QA SA "
    "SG SY TH TJ TL TM TW UZ VN YE IO";
constexpr std::string_view kOceania =
    "AS AU CC CK CX FJ FM GU HM KI MH MP NC NF NR NU NZ PF PG PN PW SB TK TO TV UM VU WF WS";
constexpr std::string_view kAfrica =
    "AO BF BI BJ BW CD CF CG CI CM CV DJ DZ EG EH ER ET GA GH GM GN GQ GW KE KM LR LS LY MA MG ML MR MU MW "
    "MZ NA NE NG RE RW "
    "SC SD SH SL SN SO SS ST SZ TD TG TN TZ UG YT ZA ZM ZW";
constexpr std::string_view kElsewhere = "AQ BV GS TF";

constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kGroups{
    {{"EU", kEu},
     {"EEA", kEea},
     {"EUROPE", kEurope},
     {"NORTH_AMERICA", kNorthAmerica},
     {"SOUTH_AMERICA", kSouthAmerica},
     {"ASIA", kAsia},
     {"OCEANIA", kOceania},
     {"AFRICA", kAfrica}}};

bool lists(std::string_view codes, std::string_view code) {
    if (code.size() != 2) return false;
    for (std::size_t at = 0; at + 2 <= codes.size(); at += 3)
        if (codes.substr(at, 2) == code) return true;
    return false;
}

bool known_country(std::string_view code) {
    if (lists(kElsewhere, code)) return true;
    for (const auto& [name, codes] : kGroups)
        if (lists(codes, code)) return true;
    return false;
}

}  // namespace

std::optional<std::string> canonical_region(std::string_view typed) {
    if (typed.empty() || typed.size() > 32) return std::nullopt;
    std::string upper;
    for (const char c : typed) {
        if (c >= 'a' && c <= 'z')
            upper.push_back(static_cast<char>(c - 'a' + 'A'));
        else
            upper.push_back(c == '-' || c == ' ' ? '_' : c);
    }
    if (upper == "UK") return "GB";
    for (const auto& [name, codes] : kGroups)
        if (name == upper) return upper;
    if (known_country(upper)) return upper;
    return std::nullopt;
}

bool in_region(std::string_view country, std::string_view region) {
    if (country == region) return !country.empty();
    for (const auto& [name, codes] : kGroups)
        if (name == region) return lists(codes, country);
    return false;
}

const std::vector<std::string_view>& region_groups() {
    static const std::vector<std::string_view> names = [] {
        std::vector<std::string_view> out;
        for (const auto& [name, codes] : kGroups) out.push_back(name);
        return out;
    }();
    return names;
}

}  // namespace gf
