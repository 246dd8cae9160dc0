#include "scheduler/estimate/model_catalog.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "model/spelling.hpp"
#include "scheduler/csv.hpp"

namespace gf {
namespace {

constexpr std::size_t kNameBytesMax = 200;
constexpr std::size_t kSuggestionsMax = 3;

std::string folded(std::string_view text) {
    std::string out;
    for (const char c : text.substr(0, kNameBytesMax)) {
        if (c == ' ' && out.empty()) continue;
        out.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c == '_' ? '-' : c);
    }
    while (!out.empty() && out.back() == ' ') out.pop_back();
    return out;
}

std::string_view tail_of(std::string_view id) {
    const auto cut = id.rfind('/');
    return cut == std::string_view::npos ? id : id.substr(cut + 1);
}
std::string_view owner_of(std::string_view id) {
    const auto cut = id.rfind('/');
    return cut == std::string_view::npos ? std::string_view{} : id.substr(0, cut);
}

/// A folded last part without the words that say how a model was trained or stored.
std::string variant_of(std::string_view tail) {
    constexpr std::array<std::string_view, 7> words{"instruct", "chat", "it", "base", "hf", "meta", "sft"};
    std::string out;
    while (true) {
        const auto cut = tail.find('-');
        const auto word = tail.substr(0, cut);
        if (std::ranges::find(words, word) == words.end())
            out += (out.empty() ? "" : "-") + std::string(word);
        if (cut == std::string_view::npos) return out;
        tail.remove_prefix(cut + 1);
    }
}

bool same_shape(const ModelShape& a, const ModelShape& b) {
    return a.layers == b.layers && a.hidden == b.hidden && a.heads == b.heads && a.kv_heads == b.kv_heads &&
           a.vocab == b.vocab && a.intermediate == b.intermediate && a.experts == b.experts &&
           a.params == b.params && a.window == b.window;
}

std::optional<double> number(std::string_view text) {
    double value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || code != std::errc{} || end != text.data() + text.size() || !std::isfinite(value))
        return std::nullopt;
    return value;
}

Error bad_row(int line, std::string what) {
    return Error{.kind = ErrorKind::malformed,
                 .message = "model table, line " + std::to_string(line) + ": " + std::move(what),
                 .line = line};
}

struct Count {
    std::string_view column;
    std::int64_t ModelShape::* member;
};
constexpr auto kCounts = std::to_array<Count>({{"layers", &ModelShape::layers},
                                               {"hidden", &ModelShape::hidden},
                                               {"heads", &ModelShape::heads},
                                               {"kv_heads", &ModelShape::kv_heads},
                                               {"head_dim", &ModelShape::head_dim},
                                               {"vocab", &ModelShape::vocab},
                                               {"intermediate", &ModelShape::intermediate},
                                               {"experts", &ModelShape::experts},
                                               {"active_experts", &ModelShape::active_experts},
                                               {"moe_intermediate", &ModelShape::moe_intermediate},
                                               {"kv_latent", &ModelShape::kv_latent},
                                               {"window", &ModelShape::window},
                                               {"full_attention_every", &ModelShape::full_every}});

}  // namespace

Result<ModelCatalog> ModelCatalog::parse(std::string_view models_csv) {
    auto table = parse_csv(models_csv);
    if (!table) return fail(bad_row(table.error().line, table.error().message));
    for (const std::string_view needed :
         {"hf_id", "family", "task", "params_b", "active_params_b", "gated_mlp", "tied_embeddings"})
        if (table->column(needed) == table->columns.size())
            return fail(bad_row(1, "the column " + std::string(needed) + " is missing"));
    ModelCatalog catalog;
    for (const auto& row : table->rows) {
        const auto field = [&](std::string_view name) {
            const auto at = table->column(name);
            return at < row.fields.size() ? std::string_view(row.fields[at]) : std::string_view{};
        };
        ModelShape s;
        s.name = std::string(field("hf_id"));
        s.family = std::string(field("family"));
        s.task = std::string(field("task"));
        const auto params = number(field("params_b"));
        if (s.name.empty() || !params) return fail(bad_row(row.line, "needs hf_id and params_b"));
        s.params = *params * 1e9;
        s.active_params = number(field("active_params_b")).value_or(*params) * 1e9;
        for (const auto& count : kCounts) {
            const auto text = field(count.column);
            const auto value = number(text);
            if (!text.empty() && (!value || std::floor(*value) != *value || *value < 0 || *value > 1e9))
                return fail(bad_row(row.line, std::string(count.column) + " must be a whole number"));
            s.*count.member = static_cast<std::int64_t>(value.value_or(0));
        }
        s.gated = field("gated_mlp") == "1";
        s.tied = field("tied_embeddings") == "yes";
        s.native_dtype = std::string(field("native_dtype"));
        s.concatenated_cache = field("cache") == "concatenated";
        // Published counts of a few models take the head for a matrix of its own, and those who load them do
        // so as well.
        if (const auto counted = number(field("params_check_b")); s.tied && counted)
            if (s.params - *counted * 1e9 > 0.9 * s.embedding() && s.task == "llm" && s.embedding() > 0)
                s.tied = false;
        if (auto good = check_shape(s); !good) return fail(bad_row(row.line, good.error().message));
        const std::string id = folded(s.name);
        if (catalog.by_id_.contains(id)) return fail(bad_row(row.line, s.name + " is there twice"));
        const std::size_t place = catalog.models_.size();
        const auto tail = tail_of(id);
        const std::string variant = variant_of(tail);
        catalog.by_id_.emplace(id, place);
        catalog.by_tail_.emplace(tail, place);
        catalog.by_variant_.emplace(std::string(owner_of(id)) + "/" + variant, place);
        catalog.by_variant_tail_.emplace(variant, place);
        catalog.models_.push_back(std::move(s));
    }
    if (catalog.models_.empty()) return fail(bad_row(1, "it has no models"));
    return catalog;
}

const ModelShape* ModelCatalog::only(const Index& index, std::string_view key) const {
    const auto [first, last] = index.equal_range(key);
    if (first == last) return nullptr;
    const ModelShape* found = &models_[first->second];
    for (auto it = first; it != last; ++it)
        if (!same_shape(models_[it->second], *found)) return nullptr;
    return found;
}

const ModelShape* ModelCatalog::find(std::string_view name) const {
    if (name.size() > kNameBytesMax) return nullptr;
    const std::string id = folded(name);
    if (id.empty()) return nullptr;
    if (const auto* exact = only(by_id_, id)) return exact;
    if (id.find('/') != std::string::npos)
        return only(by_variant_, std::string(owner_of(id)) + "/" + variant_of(tail_of(id)));
    if (const auto* tail = only(by_tail_, id)) return tail;
    return only(by_variant_tail_, variant_of(id));
}

const ModelShape* ModelCatalog::find_copy(std::string_view name, double params) const {
    const std::string id = folded(name);
    for (const auto* found : {only(by_tail_, tail_of(id)), only(by_variant_tail_, variant_of(tail_of(id)))})
        if (found != nullptr && std::abs(found->params - params) <= 0.02 * params) return found;
    return nullptr;
}

const ModelShape* ModelCatalog::of_size(double params) const {
    const ModelShape* found = nullptr;
    for (const auto& model : models_) {
        if (model.task != "llm" || std::abs(model.params - params) > 0.001 * params) continue;
        if (found != nullptr && !same_shape(*found, model)) return nullptr;
        found = &model;
    }
    return found;
}

std::vector<std::string> ModelCatalog::suggestions(std::string_view name) const {
    const std::string wanted = folded(name);
    std::vector<std::pair<std::size_t, std::string>> near;
    for (const auto& model : models_) {
        const std::string id = folded(model.name);
        const auto tail = tail_of(id);
        const auto typed = tail_of(wanted);
        const std::size_t distance = std::min(spelling_distance(wanted, id), spelling_distance(typed, tail));
        const bool inside = typed.size() >= 3 && tail.find(typed) != std::string_view::npos;
        if (inside || distance <= std::max<std::size_t>(1, std::min(typed.size(), tail.size()) / 3))
            near.emplace_back(distance, model.name);
    }
    std::ranges::sort(near);
    if (near.size() > kSuggestionsMax) near.resize(kSuggestionsMax);
    std::vector<std::string> out;
    for (auto& [distance, id] : near) out.push_back(std::move(id));
    return out;
}

}  // namespace gf
