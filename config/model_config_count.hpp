// Inside of model_config.cpp: what a config.json says of its architecture, counted layer by layer. Pure.
#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/node.hpp"

namespace gf {

/// One level of a config.json. A nested level is written without the values that are its class's own; for the
/// classes that are known those are filled in.
class ConfigReader {
 public:
    ConfigReader(const Node& config, bool nested);

    /// "llama", "gemma3": the model_type without "_text" at its end; empty when it has none.
    [[nodiscard]] const std::string& kind() const { return kind_; }
    [[nodiscard]] const Node& node() const { return *config_; }
    /// The first of these that has a plain value; null when none has.
    [[nodiscard]] const Node* scalar(std::initializer_list<std::string_view> names) const;
    /// The first of these that is a number from 0 to 1e15, or a list of such: the greatest of them.
    [[nodiscard]] std::optional<double> number(std::initializer_list<std::string_view> names) const;
    /// The same; of a list the mean.
    [[nodiscard]] std::optional<double> mean(std::initializer_list<std::string_view> names) const;
    [[nodiscard]] bool is_true(std::string_view name) const;
    [[nodiscard]] bool is_false(std::string_view name) const;
    /// Names whose values are those of the class, because the level leaves them out.
    [[nodiscard]] const std::vector<std::string>& filled_in() const { return filled_in_; }

 private:
    /// What the first of these says that says a number: one, or those of a list. Empty when none does.
    [[nodiscard]] std::vector<double> numbers(std::initializer_list<std::string_view> names) const;
    [[nodiscard]] std::optional<double> class_default(std::initializer_list<std::string_view> names) const;

    const Node* config_;
    bool nested_;
    std::string kind_;
    mutable std::vector<std::string> filled_in_;
};

struct Architecture {
    std::string kind{"llm"};     // "llm", "encoder", "seq2seq"
    double layers{0};            // of one stack
    double attention_layers{0};  // that keep keys and values; 0 = all
    double hidden{0};
    double heads{0};
    double kv_heads{0};
    double head_dim{0};
    double vocab{0};
    double intermediate{0};  // of the widest layer
    double experts{0};
    double active_experts{0};
    double moe_intermediate{0};
    double shared_intermediate{0};  // of the experts that every token passes
    double kv_latent{0};
    bool gated{true};
    bool tied{false};
    double params{0};                      // all that could be counted
    std::vector<std::string> not_counted;  // parts, as a sentence names them
    std::string missing;                   // the name of a count without which there is no shape; else empty
};

/// `whole` is the file, `text` the level of its language model (the same, where there is one level).
[[nodiscard]] Architecture count_architecture(const Node& whole, const ConfigReader& text);

}  // namespace gf
