// Lambda's types and Vultr's plans of the built-in market, from the tables of the two providers pages
// (Lambda's section 9, prices of 2026; Vultr's section 10).
#include "simulator/market.hpp"

namespace gf::sim {

namespace {

using Stock = std::map<std::string, int>;

VmType lambda_type(const char* name, const char* gpu, int gpus, const char* card, int cents, int vcpus,
                   int memory_gib, int storage_gib, Stock stock) {
    VmType type;
    type.name = name;
    type.gpu = gpu;
    type.gpus = gpus;
    type.gpu_description = card;
    type.description = std::to_string(gpus) + "x " + card;
    type.price = std::int64_t{cents} * 10'000;
    type.vcpus = vcpus;
    type.memory_gib = memory_gib;
    type.storage_gb = storage_gib;
    type.stock = std::move(stock);
    return type;
}

void add_lambda(Market& market) {
    const auto put = [&](VmType type) { market.put_vm_type(Provider::lambda, std::move(type)); };
    put(lambda_type("gpu_1x_a10", "A10", 1, "A10 (24 GB PCIe)", 129, 30, 200, 1400,
                    {{"us-west-1", 6}, {"us-east-1", 4}, {"europe-central-1", 2}}));
    put(lambda_type("gpu_1x_a100", "A100-PCIe-40GB", 1, "A100 (40 GB PCIe)", 199, 30, 200, 512,
                    {{"us-west-2", 2}}));
    put(lambda_type("gpu_1x_a100_sxm4", "A100-SXM-40GB", 1, "A100 (40 GB SXM4)", 199, 30, 200, 512,
                    {{"us-east-1", 3}, {"asia-south-1", 1}}));
    put(lambda_type("gpu_8x_a100_80gb_sxm4", "A100-SXM-80GB", 8, "A100 (80 GB SXM4)", 2232, 240, 1800, 20480,
                    {{"us-midwest-1", 1}}));
    put(lambda_type("gpu_1x_h100_pcie", "H100-PCIe-80GB", 1, "H100 (80 GB PCIe)", 329, 26, 200, 1024,
                    {{"us-west-3", 4}, {"us-south-1", 1}}));
    put(lambda_type("gpu_1x_h100_sxm5", "H100-SXM-80GB", 1, "H100 (80 GB SXM5)", 429, 26, 225, 2816,
                    {{"us-south-2", 3}, {"us-south-3", 3}}));
    put(lambda_type("gpu_2x_h100_sxm5", "H100-SXM-80GB", 2, "H100 (80 GB SXM5)", 838, 52, 450, 5632,
                    {{"us-south-2", 1}}));
    // Sold out everywhere: types without capacity stay in the map.
    put(lambda_type("gpu_8x_h100_sxm5", "H100-SXM-80GB", 8, "H100 (80 GB SXM5)", 3192, 208, 1800, 22528, {}));
    put(lambda_type("gpu_8x_b200_sxm6", "B200", 8, "B200 (180 GB SXM6)", 5352, 208, 2900, 22528,
                    {{"us-south-2", 1}}));
    auto gh200 =
        lambda_type("gpu_1x_gh200", "GH200-96GB", 1, "GH200 (96 GB)", 229, 64, 432, 4096, {{"us-east-3", 3}});
    gh200.arch = "arm64";
    put(std::move(gh200));
    put(lambda_type("gpu_1x_a6000", "RTX-A6000", 1, "A6000 (48 GB)", 109, 14, 100, 200, {{"us-west-1", 2}}));
    put(lambda_type("gpu_1x_rtx6000", "Quadro-RTX-6000", 1, "RTX 6000 (24 GB)", 69, 14, 46, 512,
                    {{"us-south-1", 2}}));
    put(lambda_type("gpu_8x_v100", "V100-SXM2-16GB", 8, "Tesla V100 (16 GB)", 632, 92, 448, 6041,
                    {{"us-south-1", 1}}));
    auto cpu = lambda_type("cpu_4x_general", "", 0, "N/A", 20, 4, 16, 100, {{"us-west-1", 4}});
    cpu.description = "4x CPU General (16 GiB)";
    put(std::move(cpu));
}

VmType vultr_plan(const char* name, const char* gpu, const char* gpu_type, int gpus, const char* share,
                  int vram_gb, std::int64_t price, int vcpus, int memory_gib, int storage_gb, Stock stock) {
    VmType plan;
    plan.name = name;
    plan.gpu = gpu;
    plan.gpu_type = gpu_type;
    plan.gpus = gpus;
    plan.share = share;
    plan.vram_gb = vram_gb;
    plan.price = plan.preemptible_price = price;
    plan.vcpus = vcpus;
    plan.memory_gib = memory_gib;
    plan.storage_gb = storage_gb;
    for (const auto& [region, count] : stock) plan.locations.push_back(region);
    // A region that has it in its book and never on its shelf.
    plan.locations.emplace_back("fra");
    plan.stock = std::move(stock);
    return plan;
}

void add_vultr(Market& market) {
    const auto put = [&](VmType plan) { market.put_vm_type(Provider::vultr, std::move(plan)); };
    put(vultr_plan("vcg-a16-2c-8g-2vram", "A16", "NVIDIA_A16", 1, "1/8", 2, 59'000, 2, 8, 50,
                   {{"ewr", 8}, {"blr", 4}}));
    put(vultr_plan("vcg-a16-2c-16g-4vram", "A16", "NVIDIA_A16", 1, "1/4", 4, 118'000, 2, 16, 80,
                   {{"ewr", 4}}));
    put(vultr_plan("vcg-a16-6c-64g-16vram", "A16", "NVIDIA_A16", 1, "", 16, 471'000, 6, 64, 350,
                   {{"ewr", 4}, {"syd", 2}}));
    put(vultr_plan("vcg-a100-3c-30g-20vram", "A100-PCIe-80GB", "NVIDIA_A100", 1, "1/4", 20, 616'000, 3, 30,
                   350, {{"ewr", 3}}));
    auto a100 = vultr_plan("vcg-a100-12c-120g-80vram", "A100-PCIe-80GB", "NVIDIA_A100", 1, "", 80, 2'397'000,
                           12, 120, 1400, {{"ewr", 3}, {"sjc", 2}});
    a100.location_price = {{"sjc", 2'534'000}};
    put(std::move(a100));
    put(vultr_plan("vcg-a40-24c-120g-48vram", "A40", "NVIDIA_A40", 1, "", 48, 1'671'000, 24, 120, 1400,
                   {{"blr", 2}}));
    put(vultr_plan("vcg-l40s-16c-180g-48vram", "L40S", "NVIDIA_L40S", 1, "", 48, 1'671'000, 16, 180, 1200,
                   {{"lax", 3}, {"ord", 1}}));
    put(vultr_plan("vcg-l40s-32c-375g-96vram", "L40S", "NVIDIA_L40S", 2, "", 96, 3'342'000, 32, 375, 2200,
                   {{"lax", 1}}));
    // A whole node, sold as preemptible only.
    auto h100 = vultr_plan("vcg-h100-216c-1914g-640vram", "H100-SXM-80GB", "NVIDIA_H100_SXM", 8, "", 640,
                           23'920'000, 216, 1914, 16'000, {{"sea", 1}});
    h100.kind = "vdm";
    h100.on_demand = false;
    h100.preemptible = true;
    h100.preemptible_price = 18'400'000;
    put(std::move(h100));
    // In the book, and not for sale in either way.
    auto b200 = vultr_plan("vcg-b200-248c-2826g-1536vram", "B200", "NVIDIA_B200", 8, "", 1536, 79'920'000,
                           248, 2826, 24'000, {});
    b200.kind = "vdm";
    b200.on_demand = false;
    put(std::move(b200));
    auto metal = vultr_plan("vbm-112c-2048gb-8-a100-gpu", "A100-SXM-80GB", "NVIDIA_A100", 8, "", 640,
                            22'400'000, 112, 2048, 3840, {{"fra", 1}});
    metal.kind = "vbm";
    metal.preemptible = true;
    metal.preemptible_price = 11'920'000;
    metal.locations = {"fra"};
    put(std::move(metal));
    auto gh200 = vultr_plan("vbm-72c-480gb-gh200-gpu", "GH200-96GB", "NVIDIA_GH200", 1, "", 96, 2'990'000, 72,
                            480, 960, {{"atl", 1}});
    gh200.kind = "vbm";
    gh200.arch = "arm64";
    put(std::move(gh200));
}

}  // namespace

void add_default_vm_types(Market& market) {
    add_lambda(market);
    add_vultr(market);
}

}  // namespace gf::sim
