#include "daemon/ssh/keys.hpp"

#include <openssl/evp.h>
#include <openssl/rand.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "daemon/ssh/private_file.hpp"
#include "providers/ssh_key_text.hpp"

namespace gf::ssh {
namespace {

constexpr std::string_view kMagic("openssh-key-v1\0", 15);
constexpr std::string_view kPemBegin = "-----BEGIN OPENSSH PRIVATE KEY-----";
constexpr std::string_view kPemEnd = "-----END OPENSSH PRIVATE KEY-----";

/// The bytes of a base64 text, line ends and blanks left out; nothing for a text that is none.
std::optional<std::string> unbase64(std::string_view text) {
    std::string digits;
    for (const char c : text)
        if (c != '\n' && c != '\r' && c != ' ' && c != '\t') digits.push_back(c);
    std::string out(digits.size() / 4 * 3, '\0');
    const int size = digits.size() % 4 != 0 ? -1 : EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                                                  reinterpret_cast<const unsigned char*>(digits.data()), static_cast<int>(digits.size()));
    if (size < 0) return std::nullopt;
    for (std::size_t i = digits.size(); i > 0 && digits[i - 1] == '=' && !out.empty(); --i) out.pop_back();
    return out;
}

/// Takes RFC 4251's numbers and strings from a text, in turn. What is not there any more is empty.
class Taken {
 public:
    explicit Taken(std::string_view from) : rest_(from) {}
    std::uint32_t number() {
        std::uint32_t value = 0;
        if (rest_.size() < 4) rest_ = {};
        for (const char c : rest_.substr(0, 4)) value = value << 8 | static_cast<unsigned char>(c);
        rest_.remove_prefix(std::min<std::size_t>(4, rest_.size()));
        return value;
    }
    std::string_view text() {
        const std::size_t size = number();
        const auto out = rest_.substr(0, size <= rest_.size() ? size : 0);
        rest_.remove_prefix(size <= rest_.size() ? size : rest_.size());
        return out;
    }

 private:
    std::string_view rest_;
};

struct RawPair {
    std::string seed;   // 32 bytes
    std::string point;  // 32 bytes
};

RawPair raw_pair() {
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), EVP_PKEY_free);
    GF_ASSERT(key != nullptr);
    std::array<unsigned char, 32> seed{}, point{};
    std::size_t seed_size = seed.size(), point_size = point.size();
    const bool told = EVP_PKEY_get_raw_private_key(key.get(), seed.data(), &seed_size) == 1 &&
                      EVP_PKEY_get_raw_public_key(key.get(), point.data(), &point_size) == 1;
    GF_ASSERT(told);
    GF_ASSERT(seed_size == seed.size());
    GF_ASSERT(point_size == point.size());
    return {.seed = std::string(seed.begin(), seed.end()), .point = std::string(point.begin(), point.end())};
}

/// The point that belongs to a seed; empty if it is none.
std::string point_of(std::string_view seed) {
    if (seed.size() != 32) return {};
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
        EVP_PKEY_new_raw_private_key_ex(nullptr, "ED25519", nullptr, reinterpret_cast<const unsigned char*>(seed.data()), seed.size()), EVP_PKEY_free);
    std::string point(32, '\0');
    std::size_t size = point.size();
    if (!key || EVP_PKEY_get_raw_public_key(key.get(), reinterpret_cast<unsigned char*>(point.data()), &size) != 1 || size != point.size()) return {};
    return point;
}

/// "ssh-ed25519 AAAA…" of a private half as `make_key_pair` writes it; nothing for what is none.
std::optional<std::string> public_half_of(std::string_view pem) {
    const auto begin = pem.find(kPemBegin);
    const auto end = pem.find(kPemEnd);
    if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return std::nullopt;
    const auto at = begin + kPemBegin.size();
    auto whole = unbase64(pem.substr(at, end - at));
    if (!whole || !whole->starts_with(kMagic)) return std::nullopt;
    Taken taken(std::string_view(*whole).substr(kMagic.size()));
    const auto cipher = taken.text(), derivation = taken.text();
    taken.text();
    if (cipher != "none" || derivation != "none" || taken.number() != 1) return std::nullopt;
    const auto shown = taken.text();
    Taken inside(taken.text());
    const auto check = inside.number();
    if (inside.number() != check || inside.text() != kEd25519Type) return std::nullopt;
    inside.text();
    const std::string point = point_of(inside.text().substr(0, 32));
    if (point.empty() || ed25519_blob(point) != shown) return std::nullopt;
    return std::string(kEd25519Type) + " " + base64(shown);
}

}  // namespace

KeyPair make_key_pair(std::string_view comment) {
    const RawPair raw = raw_pair();
    const std::string public_blob = ed25519_blob(raw.point);

    // PROTOCOL.key of OpenSSH: two equal numbers tell a reader that it has decrypted rightly; the padding is 1, 2, 3, … up to a
    // whole block, which is 8 bytes where nothing is encrypted.
    unsigned char check[4] = {};
    const int random = RAND_bytes(check, sizeof check);
    GF_ASSERT(random == 1);
    std::string inside(reinterpret_cast<const char*>(check), sizeof check);
    inside += inside;
    put_ssh_text(inside, kEd25519Type);
    put_ssh_text(inside, raw.point);
    put_ssh_text(inside, raw.seed + raw.point);
    put_ssh_text(inside, comment);
    for (char pad = 1; inside.size() % 8 != 0; ++pad) inside.push_back(pad);

    std::string whole(kMagic);
    put_ssh_text(whole, "none");  // cipher
    put_ssh_text(whole, "none");  // key derivation
    put_ssh_text(whole, "");
    put_ssh_number(whole, 1);  // keys in it
    put_ssh_text(whole, public_blob);
    put_ssh_text(whole, inside);

    const std::string body = base64(whole);
    std::string pem = std::string(kPemBegin) + "\n";
    for (std::size_t at = 0; at < body.size(); at += 70) pem += body.substr(at, 70) + "\n";
    pem += std::string(kPemEnd) + "\n";
    return {.private_key = Secret(std::move(pem)),
            .public_key = std::string(kEd25519Type) + " " + base64(public_blob) + " " + std::string(comment)};
}

std::string bare_public_key(std::string_view public_key) {
    const auto type = public_key.find(' ');
    if (type == std::string_view::npos) return std::string(public_key);
    return std::string(public_key.substr(0, public_key.find(' ', type + 1)));
}

Result<KeyPair> load_or_make_client_key(const std::string& folder, std::string_view comment) {
    if (auto made = make_private_folder(folder); !made) return fail(std::move(made).error());
    const std::string path = folder + "/id_ed25519";
    auto stored = read_small_file(path);
    auto public_half = read_small_file(path + ".pub");
    for (const auto* half : {&stored, &public_half})
        if (!*half && half->error().kind != ErrorKind::not_found) return fail(half->error());
    if (stored) {
        // ssh refuses a key that others may read: a copy or a backup that was put back has often lost its mode.
        if (auto closed = make_file_private(path); !closed) return fail(std::move(closed).error());
        const auto told = public_half_of(*stored);
        if (!told) return fail(ErrorKind::io, path + " is not an ed25519 key in OpenSSH's form without a passphrase; put the file back that was there: "
                                              "it is the only way to the machines that run");
        std::string line = public_half ? *public_half : std::string();
        while (line.ends_with('\n')) line.pop_back();
        if (bare_public_key(line) != *told) {
            // The private half is what lets us in; machines that are given another public one are never reached.
            line = *told + " " + std::string(comment);
            if (auto written = write_private_file(path + ".pub", line + "\n"); !written) return fail(std::move(written).error());
        }
        return KeyPair{.private_key = Secret(*std::move(stored)), .public_key = std::move(line)};
    }
    KeyPair made = make_key_pair(comment);
    // The public half first: a crash in between leaves one that belongs to nothing yet, and is written anew.
    if (auto written = write_private_file(path + ".pub", made.public_key + "\n"); !written) return fail(std::move(written).error());
    if (auto written = write_private_file(path, made.private_key.reveal()); !written) return fail(std::move(written).error());
    return made;
}

}  // namespace gf::ssh
