#include <algorithm>
#include <array>

#include "config/job_fields.hpp"
#include "config/utf8.hpp"
#include "model/region.hpp"

namespace gf {
namespace {

constexpr std::int64_t kTB = 1'000 * kGB;
constexpr std::array<std::string_view, 5> kProviders{"runpod", "vastai", "lambda", "vultr", "local"};
constexpr std::size_t kListMax = 64;

std::string quoted_list(const std::vector<std::string>& names) {
    std::string out;
    for (const auto& name : names) out += (out.empty() ? "\"" : ", \"") + name + "\"";
    return out;
}

void read_gpu(Walk& walk, const Node& node, JobDraft& draft) {
    auto& resources = draft.spec.resources;
    walk.list(node, kListMax, [&](const Node& item) {
        const auto typed = line_text(walk, item, 100);
        if (!typed) return;
        const auto found = draft.context->resolve_gpu(*typed);
        if (found.canonical.empty()) {
            std::string message = "is not a known GPU: \"" + shown(*typed) + "\"";
            if (!found.suggestions.empty())
                message += "; did you mean " + quoted_list(found.suggestions) + "?";
            walk.error(item, ErrorKind::invalid, message);
            return;
        }
        resources.gpu_as_typed.push_back(*typed);
        for (const auto& name : found.canonical)
            if (std::ranges::find(resources.gpu, name) == resources.gpu.end()) resources.gpu.push_back(name);
    });
    if (node.kind == Node::Kind::sequence && node.items.empty())
        walk.wrong(node, "a list of at least one GPU name");
}

void read_gpus(Walk& walk, const Node& node, JobDraft& draft) {
    if (node.kind == Node::Kind::scalar && !node.quoted && node.text == "0") {
        walk.error(node, ErrorKind::invalid,
                   "must be an integer from 1 to 64, not 0; for work without a GPU write cpu_only: true");
        return;
    }
    if (const auto count = walk.integer(node, 1, 64)) {
        draft.spec.resources.gpus = static_cast<int>(*count);
        draft.gpus = &node;
    }
}

void read_cpu_only(Walk& walk, const Node& node, JobDraft& draft) {
    if (const auto value = walk.boolean(node)) {
        draft.spec.resources.cpu_only = *value;
        draft.cpu_only = &node;
    }
}

void read_vram(Walk& walk, const Node& node, JobDraft& draft) {
    draft.vram = &node;
    const auto value = node.kind == Node::Kind::scalar ? parse_vram(node.text) : std::nullopt;
    // 1 GB to 1024 GB covers every card there is; plain bytes below a GB are as surely a slip ("24").
    const bool in_range =
        value && (value->class_gb ? *value->class_gb >= 1 && *value->class_gb <= 1024
                                  : value->exact->count >= kGB && value->exact->count <= kTB);
    if (in_range)
        draft.spec.resources.vram = value;
    else
        walk.wrong(node,
                   "memory per GPU from 1GB to 1024GB (\"24GB\" names the class, plain bytes are exact)");
}

/// Kept for the checks across keys: what it comes to depends on `gpus`, which may stand below it.
void read_estimate(Walk& walk, const Node& node, JobDraft& draft) {
    if (node.kind != Node::Kind::mapping) {
        walk.wrong(node, "a mapping (model, method, seq, batch, …)");
        return;
    }
    draft.estimate = &node;
}

void read_bandwidth(Walk& walk, const Node& node, JobDraft& draft) {
    std::optional<Bytes> value;
    if (node.kind == Node::Kind::scalar && node.text.ends_with("/s"))
        value = parse_bytes(std::string_view(node.text).substr(0, node.text.size() - 2));
    if (value && value->count >= kGB && value->count <= 100 * kTB)
        draft.spec.resources.memory_bandwidth = value;
    else
        walk.wrong(node, "a rate from 1GB/s to 100TB/s (\"900GB/s\")");
}

void read_inet_down(Walk& walk, const Node& node, JobDraft& draft) {
    constexpr std::array<std::pair<std::string_view, double>, 3> units{
        {{"Kbps", 1e-3}, {"Mbps", 1}, {"Gbps", 1e3}}};
    std::optional<double> mbps;
    for (const auto& [unit, factor] : units) {
        if (node.kind != Node::Kind::scalar || !node.text.ends_with(unit)) continue;
        if (const auto v =
                parse_decimal_micros(std::string_view(node.text).substr(0, node.text.size() - unit.size())))
            mbps = static_cast<double>(*v) / 1e6 * factor;
    }
    if (mbps && *mbps > 0 && *mbps <= 1e6)
        draft.spec.resources.inet_down_mbps = mbps;
    else
        walk.wrong(node, "a rate above 0, at most 1000Gbps (\"200Mbps\", \"1Gbps\")");
}

/// ">=12.6": the text after the sign.
std::optional<std::string> lower_bound(Walk& walk, const Node& node) {
    std::string_view s = node.kind == Node::Kind::scalar ? std::string_view(node.text) : std::string_view();
    bool good = s.starts_with(">=");
    if (good) s.remove_prefix(2);
    if (good && s.starts_with(' ')) s.remove_prefix(1);
    int components = 1;
    std::size_t digits = 0;
    for (const char c : s) {
        if (c >= '0' && c <= '9')
            ++digits;
        else if (c == '.' && digits > 0)
            digits = 0, ++components;
        else
            good = false;
        good = good && digits <= 6;
    }
    if (good && digits > 0 && components <= 4) return std::string(s);
    walk.wrong(node, "a lower bound such as \">=12.6\" (1 to 4 numbers with points)");
    return std::nullopt;
}

template <std::vector<std::string> ResourceSpec::* Member>
void read_providers(Walk& walk, const Node& node, JobDraft& draft) {
    walk.list(node, kProviders.size(), [&](const Node& item) {
        if (auto name = walk.one_of(item, kProviders))
            (draft.spec.resources.*Member).push_back(std::move(*name));
    });
}

void read_regions(Walk& walk, const Node& node, JobDraft& draft) {
    walk.list(node, kListMax, [&](const Node& item) {
        const auto typed = line_text(walk, item, 32);
        if (!typed) return;
        if (auto region = canonical_region(*typed)) {
            draft.spec.resources.regions.push_back(std::move(*region));
            return;
        }
        std::string want = "a country code (ISO 3166, two letters) or one of";
        for (const auto group : region_groups())
            want += (group == region_groups().front() ? " " : ", ") + std::string(group);
        walk.wrong(item, want);
    });
}

constexpr char kShm[] = "machines have the shared memory of their provider";

constexpr auto kFields = std::to_array<JobField>({
    {"gpu", read_gpu},
    {"gpus", read_gpus},
    {"cpu_only", read_cpu_only},
    {"vram", read_vram},
    {"estimate", read_estimate},
    {"cpus",
     [](Walk& w, const Node& n, JobDraft& d) {
         if (const auto v = w.integer(n, 1, 1024)) d.spec.resources.cpus = static_cast<int>(*v);
     }},
    {"memory",
     [](Walk& w, const Node& n, JobDraft& d) {
         if (const auto v = w.bytes(n, Bytes{1'000'000}, Bytes{64 * kTB})) d.spec.resources.memory = v;
     }},
    {"disk",
     [](Walk& w, const Node& n, JobDraft& d) {
         if (const auto v = w.bytes(n, Bytes{kGB}, Bytes{64 * kTB})) d.spec.resources.disk = *v;
     }},
    {"arch",
     [](Walk& w, const Node& n, JobDraft& d) {
         constexpr std::array<std::string_view, 2> names{"amd64", "arm64"};
         if (auto v = w.one_of(n, names)) d.spec.resources.arch = std::move(*v);
     }},
    {"cuda",
     [](Walk& w, const Node& n, JobDraft& d) {
         if (auto v = lower_bound(w, n)) d.spec.resources.cuda = std::move(*v);
     }},
    {"driver",
     [](Walk& w, const Node& n, JobDraft& d) {
         if (auto v = lower_bound(w, n)) d.spec.resources.driver = std::move(*v);
     }},
    {"shm", reserved<kShm>},
    {"precision",
     [](Walk& w, const Node& n, JobDraft& d) {
         constexpr std::array<std::string_view, 2> names{"bf16", "fp8"};
         if (auto v = w.one_of(n, names)) d.spec.resources.precision = std::move(*v);
     }},
    {"nvlink",
     [](Walk& w, const Node& n, JobDraft& d) {
         if (const auto v = w.boolean(n)) d.spec.resources.nvlink = *v;
     }},
    {"memory_bandwidth", read_bandwidth},
    {"inet_down", read_inet_down},
    {"reliability",
     [](Walk& w, const Node& n, JobDraft& d) {
         if (const auto v = w.decimal(n, 0, 1)) d.spec.resources.reliability = v;
     }},
    {"providers", read_providers<&ResourceSpec::providers>},
    {"exclude_providers", read_providers<&ResourceSpec::exclude_providers>},
    {"regions", read_regions},
    {"spot",
     [](Walk& w, const Node& n, JobDraft& d) {
         if (const auto v = w.choice<SpotChoice>(n)) d.spec.resources.spot = *v;
     }},
    {"max_price",
     [](Walk& w, const Node& n, JobDraft& d) {
         // A thousandth of a dollar is below every machine there is; a cap of 0 could never be met.
         if (const auto v = w.dollars(n, 1'000, 100'000'000'000)) d.spec.resources.max_price = UsdPerHour{*v};
     }},
});

}  // namespace

std::span<const JobField> resource_fields() {
    return kFields;
}

}  // namespace gf
