// A small blocking HTTP client for tests, over libcurl.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gf::test {

struct Ask {
    std::string method{"GET"};
    std::string url;                     // whole, or a path that is put behind `base`
    std::string body;
    std::vector<std::string> headers;    // "Name: value"; "Name:" removes one of libcurl's own
    std::string unix_path;               // socket instead of TCP
    std::string pin;                     // hex SPKI hash; the certificate is accepted exactly when it has this key
    bool chunked{false};                 // send the body without a length
    std::function<bool(std::string_view)> sink;  // takes the body as it comes; false ends the transfer
    long timeout_s{20};
};
struct Got {
    int status{0};                       // 0 = no answer
    std::string error;                   // libcurl's, when there is no answer
    std::string body;
    std::map<std::string, std::string> headers;  // lower case
};
Got ask(const Ask& request);

/// A raw TCP conversation: sends `bytes`, reads until the other end closes or `seconds` pass.
std::string raw(int port, std::string_view bytes, int seconds = 5);
/// An open TCP connection to a loopback port; -1 on failure. The caller closes it.
int connect_to(int port);
/// Open descriptors of this process.
int open_descriptors();
/// Waits until `done` or the seconds are over; true when done. Looks every 2 ms.
bool eventually(const std::function<bool()>& done, int seconds = 10);

}  // namespace gf::test
