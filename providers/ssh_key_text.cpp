#include "providers/ssh_key_text.hpp"

#include <openssl/evp.h>

namespace gf {

std::string base64(std::string_view bytes) {
    std::string out(4 * ((bytes.size() + 2) / 3) + 1, '\0');  // it writes an end mark as well
    EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()), reinterpret_cast<const unsigned char*>(bytes.data()),
                    static_cast<int>(bytes.size()));
    out.pop_back();
    return out;
}

void put_ssh_number(std::string& out, std::uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift & 0xFF));
}

void put_ssh_text(std::string& out, std::string_view text) {
    put_ssh_number(out, static_cast<std::uint32_t>(text.size()));
    out += text;
}

std::string ed25519_blob(std::string_view point) {
    std::string blob;
    put_ssh_text(blob, kEd25519Type);
    put_ssh_text(blob, point);
    return blob;
}

}  // namespace gf
