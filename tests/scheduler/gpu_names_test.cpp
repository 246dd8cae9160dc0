#include "scheduler/gpu_names.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

#include "offers.hpp"

using namespace gf;
using gf::test::gpu_names;
using gf::test::mib;

namespace {

struct Named {
    const char* provider;
    const char* name;
    std::optional<std::int64_t> memory_mib;
    const char* canonical;  // "" = not known
};

std::vector<std::string> typed(std::string_view name) {
    return gpu_names().typed(name).canonical;
}
using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("the spellings of providers and drivers lead to one card, never to a near one") {
    const Named table[] = {
        {"runpod", "NVIDIA GeForce RTX 4090", 24564, "RTX-4090"},
        {"vastai", "RTX 4090", 24564, "RTX-4090"},
        {"vastai", "RTX_4090", 24564, "RTX-4090"},
        {"vastai", "rtx4090", 24564, "RTX-4090"},
        {"vastai", "  rtx 4090 ", 24564, "RTX-4090"},
        {"vastai", "NVIDIA GeForce RTX 4090", 24564, "RTX-4090"},
        {"vastai", "RTX 4090 D", 24564, "RTX-4090-D"},
        {"vastai", "RTX 4090D", 24564, "RTX-4090-D"},
        {"nvidia-smi", "NVIDIA GeForce RTX 4090 D", 24564, "RTX-4090-D"},
        {"vastai", "RTX 4090 Laptop", 16376, ""},
        {"nvidia-smi", "NVIDIA GeForce RTX 4090 Laptop GPU", 16376, ""},
        {"vastai", "RTX 409", 24564, ""},
        {"vastai", "RTX 40900", 24564, ""},
        {"vastai", "4090", 24564, ""},
        {"vastai", "NVIDIA", std::nullopt, ""},
        {"vastai", "NVIDIA", 0, ""},
        {"vastai", "", 24564, ""},
        {"no such provider", "RTX 3090", 24576, "RTX-3090"},
        {"", "RTX 3090", std::nullopt, "RTX-3090"},
    };
    for (const auto& row : table) {
        CAPTURE(std::string(row.provider));
        CAPTURE(std::string(row.name));
        std::optional<Bytes> memory;
        if (row.memory_mib) memory = mib(*row.memory_mib);
        CHECK(gpu_names().canonical(row.provider, row.name, memory).value_or("") == row.canonical);
    }
}

TEST_CASE("spellings that nobody documents are one card's by case, blanks and dashes alone, and nobody's else (C01, C06)") {
    const Named table[] = {
        {"vastai", "NVIDIA-GeForce-RTX-4090", 24564, "RTX-4090"},
        {"vastai", "nvidia geforce rtx 4090", 24564, "RTX-4090"},
        {"vastai", "NVIDIA  GeForce  RTX  4090", 24564, "RTX-4090"},
        {"vastai", "RTX\t4090\n", 24564, "RTX-4090"},
        {"vastai", "GeForce RTX 4090 24GB", 24564, ""},
        {"vastai", "RTX 4090 (24 GB)", 24564, ""},
        {"vastai", "2x RTX 4090", 24564, ""},
        {"vastai", "RTX 4090 x2", 24564, ""},
        {"vastai", "rtx 4090d", 24564, "RTX-4090-D"},
        {"vastai", "RTX 4090 Ti", 24564, ""},
        {"vastai", "RTX 4090 SUPER", 24564, ""},
        {"vastai", "RTX 4090 Max-Q", 16376, ""},
        {"vastai", "RTX 4090 Mobile", 16376, ""},
        {"vastai", "RTX 4090\u200b", 24564, ""},
        {"vastai", "\xd0\xa0TX 4090", 24564, ""},  // a Cyrillic letter that looks like P
        {"vastai", "GTX 4090", 24564, ""},
        {"vastai", "NVIDIA GeForce", 24564, ""},
        {"vastai", "GeForce RTX", 24564, ""},
        {"vastai", "GPU", 24564, ""},
        {"vastai", "NVIDIA Graphics Device", 24564, ""},
        {"vastai", "Quadro RTX 6000", 24576, "Quadro-RTX-6000"},
        {"vastai", "A100-SXM4-80GB", 81920, "A100-SXM-80GB"},
        {"vastai", "A100 SXM", 81920, "A100-SXM-80GB"},
        {"vastai", "A100", std::nullopt, ""},  // 40 or 80: with a memory it is a documented alias
        {"vastai", "A100X", 81920, "A100X-80GB"},
        {"vastai", "A100X", 40960, ""},
        {"vastai", "A100-8", 81920, ""},
        {"vastai", "H1000", 81559, ""},
        {"nvidia-smi", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", 9728, ""},
        {"runpod", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", 10240, ""},
        {"runpod", "NVIDIA H100 80GB HBM3 MIG 7g.80gb", 81559, ""},
        {"vastai", "H100 SXM MIG 1g.10gb", 10240, ""},
        {"nvidia-smi", "NVIDIA A100-SXM4-40GB MIG 3g.20gb", 19968, ""},
        {"nvidia-smi", "GRID A100D-40C", 40960, ""},
        {"vastai", "L4", 23034, "L4"},
        {"vastai", "L40", 23034, ""},
        {"vastai", "L4", 46068, ""},
        {"vastai", "RTX 6000", 49140, ""},
    };
    for (const auto& row : table) {
        CAPTURE(std::string(row.provider));
        CAPTURE(std::string(row.name));
        std::optional<Bytes> memory;
        if (row.memory_mib) memory = mib(*row.memory_mib);
        CHECK(gpu_names().canonical(row.provider, row.name, memory).value_or("") == row.canonical);
    }
}

TEST_CASE("the reported memory tells the variants of one spelling apart") {
    const Named table[] = {
        {"vastai", "A100_PCIE", 40960, "A100-PCIe-40GB"},
        {"vastai", "A100 PCIE", 81920, "A100-PCIe-80GB"},
        {"vastai", "A100 SXM4", 40960, "A100-SXM-40GB"},
        {"vastai", "A100 SXM4", 81920, "A100-SXM-80GB"},
        {"vastai", "A100 SXM4", std::nullopt, ""},  // 40 or 80: the spelling leaves it open
        {"vastai", "A100 SXM4", 61440, ""},         // neither
        {"nvidia-smi", "NVIDIA GeForce RTX 4090", 24564, "RTX-4090"},
        {"nvidia-smi", "NVIDIA GeForce RTX 4090", 49140, "RTX-4090-48GB"},
        {"nvidia-smi", "NVIDIA GeForce RTX 4090", std::nullopt, ""},
        {"runpod", "NVIDIA GeForce RTX 4090", std::nullopt,
         "RTX-4090"},  // its table has one card of that name
        {"runpod", "NVIDIA GeForce RTX 4090", 49140, "RTX-4090-48GB"},
        {"nvidia-smi", "NVIDIA GeForce RTX 3080", 10240, "RTX-3080-10GB"},
        {"nvidia-smi", "NVIDIA GeForce RTX 3080", 12288, "RTX-3080-12GB"},
        {"nvidia-smi", "NVIDIA H100 80GB HBM3", 81559, "H100-SXM-80GB"},
        {"nvidia-smi", "NVIDIA H100", 65247, "H100-SXM-64GB"},
        {"vastai", "L4", 23034, "L4"},
        {"vastai", "RTX 3090", 10240, ""},  // not what it says it is
        {"runpod", "NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb", 24576,
         "RTX-PRO-6000-Blackwell-Server"},
        {"runpod", "NVIDIA RTX PRO 6000 Blackwell Server Edition", 24576, ""},
    };
    for (const auto& row : table) {
        CAPTURE(std::string(row.name));
        std::optional<Bytes> memory;
        if (row.memory_mib) memory = mib(*row.memory_mib);
        CHECK(gpu_names().canonical(row.provider, row.name, memory).value_or("") == row.canonical);
    }
}

TEST_CASE("a memory told in GB of 10^9 is taken for the same card") {
    CHECK(gpu_names().canonical("runpod", "NVIDIA GeForce RTX 4090", Bytes{24 * kGB}) == "RTX-4090");
    CHECK(gpu_names().canonical("runpod", "NVIDIA H100 80GB HBM3", Bytes{80 * kGB}) == "H100-SXM-80GB");
}

TEST_CASE("a typed canonical name, alias or family stands for exactly its cards") {
    CHECK(typed("RTX 4090") == Names{"RTX-4090"});
    for (const auto* same : {"rtx4090", "RTX_4090", "rtx-4090", " RTX 4090 ", "Rtx 4 0 9 0"})
        CHECK(typed(same) == Names{"RTX-4090"});
    CHECK(typed("RTX 4090 D") == Names{"RTX-4090-D"});
    CHECK(typed("RTX 4090 48GB") == Names{"RTX-4090-48GB"});
    CHECK(typed("L40") == Names{"L40"});
    CHECK(typed("L40S") == Names{"L40S"});
    CHECK(typed("A100X") == Names{"A100X-80GB"});
    CHECK(typed("RTX 3080") == Names{"RTX-3080-12GB", "RTX-3080-10GB"});  // not the Ti
    CHECK(typed("A100") == Names{"A100-SXM-80GB", "A100-SXM-40GB", "A100-PCIe-80GB", "A100-PCIe-40GB"});
    CHECK(typed("A100 80GB") == Names{"A100-SXM-80GB", "A100-PCIe-80GB"});
    CHECK(typed("H100 SXM") == Names{"H100-SXM-80GB", "H100-SXM-64GB"});
    CHECK(typed("A100-SXM4-80GB") == Names{"A100-SXM-80GB"});
    CHECK(typed("RTX PRO 6000") ==
          Names{"RTX-PRO-6000-Blackwell-WS", "RTX-PRO-6000-Blackwell-Server", "RTX-PRO-6000-Blackwell-MaxQ"});
    CHECK(typed("ADA_24") == Names{"RTX-4090"});  // a documented pool name
}

TEST_CASE("a mistyped name is refused with suggestions") {
    struct Row {
        const char* typed;
        const char* suggested;
    };
    for (const auto& row : {Row{"A100-8", "A100"}, Row{"H1000", "H100"}, Row{"RTX409", "RTX-4090"},
                            Row{"4090", "RTX-4090"}, Row{"RTX 409O", "RTX-4090"}, Row{"L4OS", "L40S"},
                            Row{"GeForce RTX 4090 24GB", "RTX-4090"}, Row{"4090 Ti", "RTX-4090"}, Row{"2x RTX 3090", "RTX-3090"},
                            Row{"NVIDIA H100 80GB HBM3 MIG 1g.10gb", "H100"}, Row{"A100,H100", "A100"}, Row{"NVIDIA A40 48GB", "A40"}}) {
        CAPTURE(std::string(row.typed));
        const auto found = gpu_names().typed(row.typed);
        CHECK(found.canonical.empty());
        CHECK(std::ranges::find(found.suggestions, row.suggested) != found.suggestions.end());
        CHECK(found.suggestions.size() <= 5);
    }
    // What stands inside of the text comes first.
    for (const auto& row : {Row{"RTX 4090 Ti", "RTX-4090"}, Row{"RTX 4090 24GB", "RTX-4090"}, Row{"RTX 3080 Ti Super", "RTX-3080-Ti"}}) {
        CAPTURE(std::string(row.typed));
        const auto found = gpu_names().typed(row.typed);
        CHECK(found.canonical.empty());
        REQUIRE(!found.suggestions.empty());
        CHECK(found.suggestions.front() == row.suggested);
    }
    for (const auto& row : {Row{"RTX 6000 Ada Generation", "RTX-6000-Ada"}, Row{"NVIDIA RTX-4090", "RTX-4090"}, Row{"nvidia l4", "L4"}}) {
        CAPTURE(std::string(row.typed));
        CHECK(gpu_names().typed(row.typed).canonical == std::vector<std::string>{row.suggested});
    }
    for (const auto* nonsense : {"", "-", "banana split", "gpu_8x_a100", "vcg-a16-2c-8g-2vram"}) {
        CAPTURE(std::string(nonsense));
        CHECK(gpu_names().typed(nonsense).canonical.empty());
    }
    CHECK(gpu_names().typed(std::string(100'000, 'A')).canonical.empty());
}

TEST_CASE("every card and every alias of the shipped tables resolves") {
    CHECK(gpu_names().cards().size() == 156);
    for (const auto& card : gpu_names().cards()) {
        CHECK(typed(card.canonical) == Names{card.canonical});
        REQUIRE(gpu_names().card(card.canonical) != nullptr);
        CHECK(gpu_names().card(card.canonical)->class_gb >= 6);
        CHECK(gpu_names().canonical("", card.canonical, Bytes{card.class_gb * kGiB}).has_value());
    }
    CHECK(gpu_names().card("RTX 4090") == nullptr);
    const auto* l4 = gpu_names().card("L4");
    REQUIRE(l4 != nullptr);
    CHECK(l4->reported == mib(23034));
    CHECK(l4->bandwidth_gb_s == 300);
    CHECK(l4->bf16);
    CHECK(l4->fp8);
    CHECK(l4->nvlink_gb_s == 0);
    CHECK(l4->compute_capability == "8.9");
}

TEST_CASE("what a process can use of a card is less than its class") {
    const auto& names = gpu_names();
    struct Row {
        const char* card;
        double gib;  // vram.md, section 0, by hand
    };
    const Row table[] = {{"RTX-4090", 24564.0 / 1024 * 0.985 - 0.35}, {"L4", 23034.0 / 1024 * 0.985 - 0.35},
                         {"H100-SXM-80GB", 81559.0 / 1024 * 0.985 - 0.5}, {"B200", 183359.0 / 1024 * 0.985 - 0.7},
                         {"RTX-4070", 12 * 0.995 * 0.985 - 0.35}, {"V100-SXM3-32GB", 32 * 0.995 * 0.985 - 1.3}};
    for (const auto& row : table) {
        const auto* card = names.card(row.card);
        REQUIRE_MESSAGE(card != nullptr, row.card);
        CHECK_MESSAGE(std::abs(static_cast<double>(usable_memory(*card).count) / static_cast<double>(kGiB) - row.gib) < 0.001, row.card);
    }
    CHECK(usable_memory(nullptr, Bytes{0}).count == 0);
    CHECK(names.card("L40S")->fp16_tensor_tflops == 362);
    CHECK(names.card("B200")->fp4);
    CHECK(!names.card("P40")->fp16_tensor_tflops.has_value());
    CHECK(names.cards().size() >= 150);
}

TEST_CASE("a broken table is refused with its line") {
    constexpr std::string_view cards =
        "canonical_name,vendor,compute_capability,vram_gb,reported_vram_mib,memory_bandwidth_gb_s,bf16_"
        "supported,"
        "fp8_supported,nvlink_gb_s\nX,nvidia,8.0,24,,,yes,no,0\n";
    constexpr std::string_view aliases =
        "provider,provider_name_or_type,canonical_name,gpu_count,vram_gb_as_reported,notes\n";
    CHECK(GpuNames::parse(cards, aliases).has_value());
    struct Row {
        std::string cards, aliases;
        int line;
    };
    const Row table[] = {
        {"", std::string(aliases), 1},
        {"canonical_name,vendor\nX,nvidia\n", std::string(aliases), 1},
        {std::string(cards) + "X,nvidia,8.0,24,,,yes,no,0\n", std::string(aliases), 3},
        {std::string(cards) + "Y,nvidia,8.0,zero,,,yes,no,0\n", std::string(aliases), 3},
        {std::string(cards) + "Y,nvidia\n", std::string(aliases), 3},
        {std::string(cards) + "Y,nvidia,8.0,24,,,True,no,0\n", std::string(aliases), 3},
        {std::string(cards) + "Y,Nvidia,8.0,24,,,yes,no,0\n", std::string(aliases), 3},
        {std::string(cards) + "Y,nvidia,abc,24,,,yes,no,0\n", std::string(aliases), 3},
        {std::string(cards) + "Y,nvidia,8.0,24,-5,,yes,no,0\n", std::string(aliases), 3},
        {std::string(cards) + "Y,nvidia,8.0,24,,fast,yes,no,0\n", std::string(aliases), 3},
        {std::string(cards), std::string(aliases) + "a,b,NO SUCH CARD,,,\n", 2},
        {std::string(cards), std::string(aliases) + "a,\"b,X,,,\n", 2},
    };
    for (const auto& row : table) {
        const auto parsed = GpuNames::parse(row.cards, row.aliases);
        REQUIRE(!parsed.has_value());
        CHECK(parsed.error().kind == ErrorKind::malformed);
        CHECK(parsed.error().line == row.line);
    }
}

TEST_CASE("aliases of another table are passed over where the cards are not there") {
    constexpr std::string_view cards =
        "canonical_name,vendor,compute_capability,vram_gb,reported_vram_mib,memory_bandwidth_gb_s,bf16_supported,"
        "fp8_supported,nvlink_gb_s\nX,nvidia,8.0,24,,,yes,no,0\n";
    constexpr std::string_view aliases =
        "provider,provider_name_or_type,canonical_name,gpu_count,vram_gb_as_reported,notes\na,other card,Y,,,\na,my card,X,,,\n";
    CHECK(!GpuNames::parse(cards, aliases).has_value());
    const auto names = GpuNames::parse(cards, aliases, true);
    REQUIRE(names.has_value());
    CHECK(names->canonical("a", "my card", std::nullopt) == "X");
    CHECK(names->canonical("a", "other card", std::nullopt) == std::nullopt);
}
