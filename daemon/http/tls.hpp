// Both listeners speak TLS with a certificate from files or with a self-signed one that is made once and kept. Agents trust
// it by the hash of its public key, others by the file itself (gpuferry --ca).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "model/result.hpp"

namespace gf::http {

struct TlsIdentity;  // the loaded context; tls_context.hpp

struct Tls {
    std::shared_ptr<TlsIdentity> identity;
    std::string spki_pin;  // hex SHA-256 of the DER SubjectPublicKeyInfo
};

/// Errors: `io` with the file and OpenSSL's reason.
Result<Tls> load_tls(const std::string& cert_pem, const std::string& key_pem);
/// Loads `folder`/cert.pem and key.pem; makes what is not there (P-256, 20 years, folder 0700, key 0600). A new certificate is
/// for localhost and for `names`: host names, and addresses with or without brackets. Without cert.pem one is made for the key
/// that is there, so that the pin stays.
Result<Tls> load_or_make_tls(const std::string& folder, const std::vector<std::string>& names = {});

}  // namespace gf::http
