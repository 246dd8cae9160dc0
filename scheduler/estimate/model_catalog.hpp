// The table of models (config/models.csv): hub ids and their shapes. A name is looked up exactly, or as an
// unambiguous alias; never as a near match, because a neighbour's memory is another one. Immutable after
// `parse`.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/result.hpp"
#include "scheduler/estimate/shape.hpp"

namespace gf {

class ModelCatalog {
 public:
    /// Parses the table (CSV text with a header line, as shipped). Errors: `malformed` with the line.
    static Result<ModelCatalog> parse(std::string_view models_csv);

    /// The model of that hub id, case ignored. Else of that last part of an id ("Qwen-7B", "gemma-2-9b"), or
    /// of the id without the words that do not change a shape ("-Instruct", "-Chat", "-it", "-Base", "-hf",
    /// "Meta-"), when no two models of different shape answer to it. An id with an owner stands for that
    /// owner's models only. Null when there is none.
    [[nodiscard]] const ModelShape* find(std::string_view name) const;
    /// The model whose last part of the id is exactly this one's, whoever the owner is, when it has so many
    /// parameters (within 2 %): a copy under another roof.
    [[nodiscard]] const ModelShape* find_copy(std::string_view name, double params) const;
    /// A decoder with as many parameters to a thousandth, when all such have one shape.
    [[nodiscard]] const ModelShape* of_size(double params) const;
    /// Hub ids near in spelling, nearest first, at most 3.
    [[nodiscard]] std::vector<std::string> suggestions(std::string_view name) const;

    [[nodiscard]] const std::vector<ModelShape>& models() const { return models_; }

 private:
    using Index = std::multimap<std::string, std::size_t, std::less<>>;
    [[nodiscard]] const ModelShape* only(const Index& index, std::string_view key) const;

    std::vector<ModelShape> models_;
    Index by_id_;       // lower case
    Index by_tail_;     // last part of the id
    Index by_variant_;  // owner and last part without words that do not change a shape
    Index by_variant_tail_;
};

}  // namespace gf
