// Asio and Beast compiled once for the agent (its definitions must not be mixed with the header-only form).
#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/beast/src.hpp>
