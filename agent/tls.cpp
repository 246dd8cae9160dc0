#include "agent/tls.hpp"

#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>

namespace gf::agent {

boost::asio::ssl::context make_tls_context(bool tls, const std::string& pin) {
    namespace ssl = boost::asio::ssl;
    ssl::context context(ssl::context::tls_client);
    context.set_options(ssl::context::default_workarounds | ssl::context::no_sslv2 | ssl::context::no_sslv3 |
                        ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1);
    if (tls && pin.empty()) {
        const auto bundle = embedded_ca_bundle();
        boost::system::error_code ignored;
        context.add_certificate_authority(boost::asio::buffer(bundle.data(), bundle.size()), ignored);
        context.set_default_verify_paths(ignored);
        context.set_verify_mode(ssl::verify_peer);
    } else {
        context.set_verify_mode(ssl::verify_none);  // check_pin judges
    }
    return context;
}

Result<void> prepare_tls(SSL* ssl, const std::string& host, const std::string& pin) {
    const bool is_address = host.find(':') != std::string::npos || host.find_first_not_of("0123456789.") == std::string::npos;
    if (!is_address && SSL_set_tlsext_host_name(ssl, host.c_str()) != 1)
        return fail(ErrorKind::io, "TLS: the host name cannot be sent: " + host);
    if (!pin.empty()) return {};
    const int set = is_address ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) : SSL_set1_host(ssl, host.c_str());
    if (set != 1) return fail(ErrorKind::io, "TLS: the host name cannot be verified: " + host);
    return {};
}

bool check_pin(SSL* ssl, const std::string& pin) {
    if (pin.empty()) return true;
    const std::unique_ptr<X509, decltype(&X509_free)> certificate(SSL_get1_peer_certificate(ssl), X509_free);
    if (!certificate) return false;
    unsigned char* der = nullptr;
    const int size = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate.get()), &der);
    if (size <= 0) return false;
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    const int hashed = EVP_Digest(der, static_cast<std::size_t>(size), digest, &length, EVP_sha256(), nullptr);
    OPENSSL_free(der);
    if (hashed != 1) return false;
    std::string hex;
    for (unsigned i = 0; i < length; ++i) {
        hex.push_back("0123456789abcdef"[digest[i] >> 4]);
        hex.push_back("0123456789abcdef"[digest[i] & 15]);
    }
    return hex == pin;
}

}  // namespace gf::agent
