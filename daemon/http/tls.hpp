// The agents' listener speaks TLS with a certificate from files or with a self-signed one that is made once and kept;
// agents trust it by the hash of its public key.
#pragma once
#include <memory>
#include <string>

#include "model/result.hpp"

namespace gf::http {

struct TlsIdentity;  // the loaded context; tls_context.hpp

struct Tls {
    std::shared_ptr<TlsIdentity> identity;
    std::string spki_pin;  // hex SHA-256 of the DER SubjectPublicKeyInfo
};

/// Errors: `io` with the file and OpenSSL's reason.
Result<Tls> load_tls(const std::string& cert_pem, const std::string& key_pem);
/// Loads `folder`/cert.pem and key.pem; makes them (P-256, 20 years, folder 0700, key 0600) when the key is not there.
Result<Tls> load_or_make_tls(const std::string& folder);

}  // namespace gf::http
