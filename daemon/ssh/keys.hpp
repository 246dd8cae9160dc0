// Key pairs for ssh: ed25519 by OpenSSL, written as OpenSSH writes them. One pair lets this installation's ssh into its
// machines; one per machine is what that machine's sshd shows, where it boots with a script of ours.
#pragma once
#include <string>
#include <string_view>

#include "model/result.hpp"
#include "model/secret.hpp"

namespace gf::ssh {

struct KeyPair {
    Secret private_key;      // OpenSSH's own PEM form, without a passphrase
    std::string public_key;  // "ssh-ed25519 AAAA… comment", one line without its end
};

/// A new pair from the system's generator. `comment` is a word for people and stands in both halves. Aborts if the crypto
/// library has no ed25519: that is a broken build.
[[nodiscard]] KeyPair make_key_pair(std::string_view comment);

/// `public_key` without its comment: "ssh-ed25519 AAAA…".
[[nodiscard]] std::string bare_public_key(std::string_view public_key);

/// The pair in `folder`/id_ed25519 (0600, also if it was wider) and id_ed25519.pub, made at the first call. A public half that is
/// missing, or belongs to another key, is written anew from the private one. Errors: `io` with the path, also for a private half
/// that cannot be read as one: a new one would lock us out of the machines that run.
Result<KeyPair> load_or_make_client_key(const std::string& folder, std::string_view comment);

}  // namespace gf::ssh
