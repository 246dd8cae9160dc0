// The market that is there when no file is given: enough of everything for a demonstration, with prices of
// the order seen in late 2026 (RunPod's list prices; Vast's marketplace from cheap and shaky to dear and
// solid).
#include <array>

#include "simulator/market.hpp"

namespace gf::sim {

namespace {

struct RunpodRow {
    const char* gpu;
    std::int64_t secure;
    std::int64_t community;
    int secure_hosts;
    int community_hosts;
    int gpus_per_host;
};

constexpr std::array<RunpodRow, 11> kRunpod{{
    {"RTX-3090", 460'000, 220'000, 1, 2, 4},
    {"RTX-4090", 690'000, 340'000, 2, 2, 4},
    {"RTX-5090", 940'000, 690'000, 1, 1, 4},
    {"RTX-A5000", 270'000, 160'000, 2, 1, 4},
    {"RTX-A6000", 490'000, 330'000, 1, 1, 4},
    {"L4", 430'000, 0, 2, 0, 8},
    {"L40S", 860'000, 790'000, 1, 1, 8},
    {"A40", 400'000, 350'000, 1, 1, 8},
    {"A100-PCIe-80GB", 1'390'000, 1'190'000, 1, 1, 8},
    {"A100-SXM-80GB", 1'490'000, 1'390'000, 1, 0, 8},
    {"H100-SXM-80GB", 2'990'000, 2'690'000, 1, 1, 8},
}};

struct VastRow {
    const char* gpu;
    int gpus;
    std::int64_t price;
    std::int64_t floor;
    std::int64_t storage_per_gb;
    const char* place;
    double reliability;
    bool verified;
    std::int64_t lease_days;
};

constexpr std::array<VastRow, 18> kVast{{
    {"RTX-3090", 4, 180'000, 90'000, 150'000, "Quebec, CA", 0.9953, true, 60},
    {"RTX-3090", 2, 160'000, 85'000, 300'000, "Bulgaria, BG", 0.9871, true, 20},
    {"RTX-3090", 8, 210'000, 110'000, 100'000, "Texas, US", 0.9982, true, 120},
    {"RTX-4090", 8, 370'000, 213'300, 150'000, "Oregon, US", 0.9964, true, 90},
    {"RTX-4090", 1, 290'000, 160'000, 200'000, "Norway, NO", 0.9740, true, 14},
    {"RTX-4090", 4, 340'000, 200'000, 120'000, "Sweden, SE", 0.9951, true, 45},
    {"RTX-4090", 2, 250'000, 140'000, 250'000, "Vietnam, VN", 0.9012, false, 7},
    {"RTX-5090", 2, 480'000, 304'300, 150'000, "California, US", 0.9904, true, 30},
    {"RTX-A5000", 4, 170'000, 100'000, 150'000, "Poland, PL", 0.9930, true, 60},
    {"RTX-A6000", 2, 380'000, 240'000, 150'000, "Romania, RO", 0.9922, true, 60},
    {"L4", 4, 220'000, 120'000, 200'000, "Hong Kong, HK", 0.9831, true, 30},
    {"L40S", 4, 600'000, 420'000, 150'000, "Japan, JP", 0.9980, true, 60},
    {"A100-SXM-40GB", 8, 500'000, 280'000, 150'000, "South Carolina, US", 0.9949, true, 45},
    {"A100-SXM-80GB", 8, 890'000, 540'000, 150'000, "Texas, US", 0.9939, true, 60},
    {"A100-PCIe-80GB", 4, 780'000, 470'000, 180'000, "Czechia, CZ", 0.9917, true, 30},
    {"H100-SXM-80GB", 8, 1'870'000, 1'200'000, 200'000, "Iceland, IS", 0.9975, true, 90},
    {"H100-PCIe-80GB", 2, 1'800'000, 1'150'000, 150'000, "Mexico, MX", 0.9810, true, 30},
    {"H200-SXM-141GB", 8, 2'350'000, 1'600'000, 200'000, "Virginia, US", 0.9983, true, 120},
}};

constexpr std::array<const char*, 4> kDataCenters{"EU-RO-1", "US-KS-2", "EU-SE-1", "US-TX-3"};

std::string documentation_ip(std::size_t n) {
    return "203.0.113." + std::to_string(10 + n % 200);
}

void add_runpod_hosts(Market& market, const RunpodRow& row, std::int64_t& id) {
    for (int i = 0; i < row.secure_hosts + row.community_hosts; ++i) {
        Host host;
        host.provider = Provider::runpod;
        host.id = id++;
        host.gpu = row.gpu;
        host.gpus = row.gpus_per_host;
        host.secure = i < row.secure_hosts;
        host.data_center = kDataCenters[static_cast<std::size_t>(host.id) % kDataCenters.size()];
        host.disk_gb = 2'000;
        host.cuda = i % 2 == 0 ? 12.8 : 13.0;
        host.driver = i % 2 == 0 ? "570.124.06" : "580.95.05";
        host.public_ip = documentation_ip(static_cast<std::size_t>(host.id));
        market.put(std::move(host));
    }
}

Host vast_host(const VastRow& row, std::int64_t id) {
    Host host;
    host.provider = Provider::vastai;
    host.id = id;
    host.host_owner = 70'000 + id % 7;
    host.gpu = row.gpu;
    host.gpus = row.gpus;
    host.price_per_gpu = row.price;
    host.floor_per_gpu = row.floor;
    host.storage_per_gb = row.storage_per_gb;
    host.geolocation = row.place;
    host.reliability = row.reliability;
    host.verified = row.verified;
    host.datacenter = row.reliability > 0.99;
    host.lease_s = row.lease_days * 86'400;
    host.cuda = id % 3 == 0 ? 12.8 : 13.0;
    host.driver = id % 3 == 0 ? "570.124.06" : "580.95.05";
    host.public_ip = documentation_ip(static_cast<std::size_t>(id));
    // A few hosts do not tell their core count; clients must live with null.
    if (id % 9 == 5) host.cpu_cores.reset();
    return host;
}

}  // namespace

Market default_market() {
    Market market;
    std::int64_t id = 5'001;
    for (const auto& row : kRunpod) {
        market.type_prices()[row.gpu] = TypePrice{.secure = row.secure,
                                                  .community = row.community,
                                                  .secure_spot = row.secure / 2,
                                                  .community_spot = row.community / 2,
                                                  .overrides = {}};
        add_runpod_hosts(market, row, id);
    }
    id = 31'871;
    for (const auto& row : kVast) market.put(vast_host(row, id++));
    add_default_vm_types(market);
    return market;
}

}  // namespace gf::sim
