#include "daemon/ssh/keys.hpp"

#include <openssl/evp.h>
#include <openssl/rand.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "daemon/ssh/private_file.hpp"

namespace gf::ssh {
namespace {

constexpr std::string_view kType = "ssh-ed25519";

void put_number(std::string& out, std::uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift & 0xFF));
}

/// RFC 4251's "string": its length in four bytes, then the bytes.
void put_text(std::string& out, std::string_view text) {
    put_number(out, static_cast<std::uint32_t>(text.size()));
    out += text;
}

std::string base64(std::string_view bytes) {
    std::string out(4 * ((bytes.size() + 2) / 3) + 1, '\0');
    const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
    GF_ASSERT(size >= 0);
    out.resize(static_cast<std::size_t>(size));
    return out;
}

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

}  // namespace

KeyPair make_key_pair(std::string_view comment) {
    const RawPair raw = raw_pair();
    std::string public_blob;
    put_text(public_blob, kType);
    put_text(public_blob, raw.point);

    // PROTOCOL.key of OpenSSH: two equal numbers tell a reader that it has decrypted rightly; the padding is 1, 2, 3, … up to a
    // whole block, which is 8 bytes where nothing is encrypted.
    unsigned char check[4] = {};
    const int random = RAND_bytes(check, sizeof check);
    GF_ASSERT(random == 1);
    std::string inside(reinterpret_cast<const char*>(check), sizeof check);
    inside += inside;
    put_text(inside, kType);
    put_text(inside, raw.point);
    put_text(inside, raw.seed + raw.point);
    put_text(inside, comment);
    for (char pad = 1; inside.size() % 8 != 0; ++pad) inside.push_back(pad);

    std::string whole("openssh-key-v1\0", 15);
    put_text(whole, "none");  // cipher
    put_text(whole, "none");  // key derivation
    put_text(whole, "");
    put_number(whole, 1);  // keys in it
    put_text(whole, public_blob);
    put_text(whole, inside);

    const std::string body = base64(whole);
    std::string pem = "-----BEGIN OPENSSH PRIVATE KEY-----\n";
    for (std::size_t at = 0; at < body.size(); at += 70) pem += body.substr(at, 70) + "\n";
    pem += "-----END OPENSSH PRIVATE KEY-----\n";
    return {.private_key = Secret(std::move(pem)),
            .public_key = std::string(kType) + " " + base64(public_blob) + " " + std::string(comment)};
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
    if (stored && public_half) {
        while (public_half->ends_with('\n')) public_half->pop_back();
        return KeyPair{.private_key = Secret(*std::move(stored)), .public_key = *std::move(public_half)};
    }
    if (stored && public_half.error().kind == ErrorKind::not_found)
        return fail(ErrorKind::io, path + ".pub is missing beside " + path + "; make it with ssh-keygen -y -f " + path);
    for (const auto* half : {&stored, &public_half})
        if (!*half && half->error().kind != ErrorKind::not_found) return fail(half->error());
    KeyPair made = make_key_pair(comment);
    // The public half first: a crash in between leaves one that belongs to nothing yet, and is written anew.
    if (auto written = write_private_file(path + ".pub", made.public_key + "\n"); !written) return fail(std::move(written).error());
    if (auto written = write_private_file(path, made.private_key.reveal()); !written) return fail(std::move(written).error());
    return made;
}

}  // namespace gf::ssh
