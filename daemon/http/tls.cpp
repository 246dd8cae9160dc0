#include "daemon/http/tls.hpp"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string_view>

#include "checkpoints/digest.hpp"
#include "checkpoints/disk.hpp"
#include "daemon/http/files.hpp"
#include "daemon/http/tls_context.hpp"

namespace gf::http {
namespace {

template <auto Free>
struct Freed {
    template <class T>
    void operator()(T* p) const { Free(p); }
};
using Bio = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Cert = std::unique_ptr<X509, Freed<X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>>;

std::string reason() {
    const auto code = ERR_get_error();
    if (code == 0) return "no reason given";
    std::string text(256, '\0');
    ERR_error_string_n(code, text.data(), text.size());
    return text.c_str();
}

std::string contents(BIO* bio) {
    char* data = nullptr;
    const auto size = BIO_get_mem_data(bio, &data);
    return {data, static_cast<std::size_t>(size)};
}

Result<void> write_new(const std::filesystem::path& path, const std::string& bytes) {
    auto& disk = checkpoints::Disk::real();
    const auto temporary = path.string() + ".tmp";
    if (auto removed = disk.remove(temporary); !removed) return removed;
    auto file = disk.create(temporary);
    if (!file) return fail(std::move(file).error());
    if (auto written = disk.write(*file, bytes, temporary); !written) return written;
    if (auto synced = disk.sync(*file, temporary); !synced) return synced;
    if (auto renamed = disk.rename(temporary, path); !renamed) return renamed;
    return disk.sync_directory(path.parent_path());
}

/// The names as OpenSSL's configuration writes them; what cannot be one is left out.
std::string alternative_names(const std::vector<std::string>& names) {
    std::string out = "DNS:gpuferry,DNS:localhost,IP:127.0.0.1,IP:::1";
    for (std::string_view name : names) {
        if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
        const bool plain = !name.empty() && std::ranges::all_of(name, [](char c) {
            return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == ':';
        });
        if (!plain) continue;
        const std::string text(name);
        const std::unique_ptr<ASN1_OCTET_STRING, Freed<ASN1_OCTET_STRING_free>> address(a2i_IPADDRESS(text.c_str()));
        if (!address && name.find(':') != std::string_view::npos) continue;
        out += (address ? ",IP:" : ",DNS:") + text;
    }
    ERR_clear_error();  // a name that is no address leaves a complaint behind
    return out;
}

Key key_of(const std::filesystem::path& path) {
    const Bio file(BIO_new_file(path.c_str(), "r"));
    return Key(file ? PEM_read_bio_PrivateKey(file.get(), nullptr, nullptr, nullptr) : nullptr);
}

/// Agents check the key by its hash and nothing else; the names are for those who are given the certificate itself.
Result<void> make_identity(const std::filesystem::path& cert_path, const std::filesystem::path& key_path, bool key_is_there,
                           const std::vector<std::string>& names_wanted) {
    const Key key = key_is_there ? key_of(key_path) : Key(EVP_EC_gen("P-256"));
    if (key_is_there && !key) return fail(ErrorKind::io, "read the key " + key_path.string() + ": " + reason());
    const Cert cert(X509_new());
    if (!key || !cert) return fail(ErrorKind::io, "make a TLS key: " + reason());
    X509_set_version(cert.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert.get()), -24L * 3600);
    X509_gmtime_adj(X509_getm_notAfter(cert.get()), 20L * 365 * 24 * 3600);
    X509_set_pubkey(cert.get(), key.get());
    auto* name = X509_get_subject_name(cert.get());
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("gpuferry"), -1, -1, 0);
    X509_set_issuer_name(cert.get(), name);
    const Extension names(X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, alternative_names(names_wanted).c_str()));
    if (!names || X509_add_ext(cert.get(), names.get(), -1) != 1 || X509_sign(cert.get(), key.get(), EVP_sha256()) == 0)
        return fail(ErrorKind::io, "sign the TLS certificate: " + reason());
    const Bio cert_pem(BIO_new(BIO_s_mem()));
    const Bio key_pem(BIO_new(BIO_s_mem()));
    if (PEM_write_bio_X509(cert_pem.get(), cert.get()) != 1 ||
        PEM_write_bio_PKCS8PrivateKey(key_pem.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1)
        return fail(ErrorKind::io, "write the TLS key: " + reason());
    if (auto written = write_new(cert_path, contents(cert_pem.get())); !written || key_is_there) return written;
    // The key last: it is what says that the pair is complete.
    return write_new(key_path, contents(key_pem.get()));
}

Result<std::string> pin_of(const std::string& cert_pem) {
    const Bio file(BIO_new_file(cert_pem.c_str(), "r"));
    if (!file) return fail(ErrorKind::io, "read " + cert_pem + ": " + reason());
    const Cert cert(PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr));
    if (!cert) return fail(ErrorKind::io, "no certificate in " + cert_pem + ": " + reason());
    unsigned char* der = nullptr;
    const auto length = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(cert.get()), &der);
    if (length <= 0) return fail(ErrorKind::io, "read the public key of " + cert_pem + ": " + reason());
    const std::string spki(reinterpret_cast<const char*>(der), static_cast<std::size_t>(length));
    OPENSSL_free(der);
    return checkpoints::sha256(spki).hex();
}

}  // namespace

Result<Tls> load_tls(const std::string& cert_pem, const std::string& key_pem) {
    ERR_clear_error();
    auto pin = pin_of(cert_pem);
    if (!pin) return fail(std::move(pin).error());
    auto identity = std::make_shared<TlsIdentity>();
    auto* context = identity->context.native_handle();
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
    // Nobody reconnects so often that a kept session would pay for the memory that it takes.
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(context, 0);
    if (SSL_CTX_use_certificate_chain_file(context, cert_pem.c_str()) != 1)
        return fail(ErrorKind::io, "use the certificate " + cert_pem + ": " + reason());
    if (SSL_CTX_use_PrivateKey_file(context, key_pem.c_str(), SSL_FILETYPE_PEM) != 1)
        return fail(ErrorKind::io, "use the key " + key_pem + ": " + reason());
    if (SSL_CTX_check_private_key(context) != 1)
        return fail(ErrorKind::io, "the key " + key_pem + " is not that of " + cert_pem);
    return Tls{.identity = std::move(identity), .spki_pin = *std::move(pin)};
}

Result<Tls> load_or_make_tls(const std::string& folder, const std::vector<std::string>& names) {
    const auto cert = std::filesystem::path(folder) / "cert.pem";
    const auto key = std::filesystem::path(folder) / "key.pem";
    if (auto made = make_folders(folder); !made) return fail(std::move(made).error());
    std::error_code ignored;
    const bool key_is_there = std::filesystem::exists(key, ignored);
    if (!key_is_there || !std::filesystem::exists(cert, ignored)) {
        if (auto made = make_identity(cert, key, key_is_there, names); !made) return fail(std::move(made).error());
    }
    return load_tls(cert, key);
}

}  // namespace gf::http
