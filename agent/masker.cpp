#include "agent/masker.hpp"

#include <algorithm>

namespace gf::agent {

Masker::Masker(std::vector<std::string> secrets) : secrets_(std::move(secrets)) {
    std::erase_if(secrets_, [](const std::string& s) { return s.size() < kSecretBytesMin; });
}

std::string Masker::feed(std::string_view bytes) {
    if (secrets_.empty()) return std::string(bytes);
    held_.append(bytes);
    covered_.resize(held_.size(), ' ');
    const std::string_view text = held_;
    for (const auto& secret : secrets_) {
        // One byte on, not one secret on: overlapping finds of "abab" in "ababab" are all covered.
        for (auto at = text.find(secret); at != std::string_view::npos; at = text.find(secret, at + 1))
            std::fill_n(covered_.begin() + static_cast<std::ptrdiff_t>(at), secret.size(), '*');
    }
    return emit(held_.size() - open_suffix());
}

std::string Masker::finish() { return emit(held_.size()); }

std::size_t Masker::open_suffix() const {
    const std::string_view text = held_;
    std::size_t longest = 0;
    for (const auto& secret : secrets_) {
        const std::size_t most = std::min(secret.size() - 1, text.size());
        auto tail = text.substr(text.size() - most);
        while (tail.size() > longest) {
            const auto first = tail.find(secret.front());
            if (first == std::string_view::npos) break;
            tail.remove_prefix(first);
            if (tail.size() > longest && secret.starts_with(tail)) {
                longest = tail.size();
                break;
            }
            tail.remove_prefix(1);
        }
    }
    return longest;
}

std::string Masker::emit(std::size_t count) {
    std::string out = held_.substr(0, count);
    for (std::size_t i = 0; i < count; ++i)
        if (covered_[i] == '*') out[i] = '*';
    held_.erase(0, count);
    covered_.erase(0, count);
    return out;
}

}  // namespace gf::agent
