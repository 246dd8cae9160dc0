// The TLS context of a listener, for the files that already include Asio.
#pragma once
#include <boost/asio/ssl/context.hpp>

#include "daemon/http/tls.hpp"

namespace gf::http {

struct TlsIdentity {
    boost::asio::ssl::context context{boost::asio::ssl::context::tls_server};
};

}  // namespace gf::http
