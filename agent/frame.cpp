#include "agent/frame.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

namespace gf::agent {
namespace {

void put_u32(std::string& out, std::size_t value) {
    const auto v = static_cast<std::uint32_t>(value);
    char bytes[4];
    std::memcpy(bytes, &v, sizeof bytes);
    out.append(bytes, sizeof bytes);
}

std::uint32_t get_u32(const char* from) {
    std::uint32_t v = 0;
    std::memcpy(&v, from, sizeof v);
    return v;
}

}  // namespace

const std::string& Frame::field(std::size_t i) const {
    static const std::string none;
    return i < fields.size() ? fields[i] : none;
}

std::int64_t Frame::number(std::size_t i) const {
    const auto& text = field(i);
    std::int64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

FrameChannel::FrameChannel(Descriptor fd) : fd_(std::move(fd)) {
    const int flags = ::fcntl(fd_.get(), F_GETFL);
    ::fcntl(fd_.get(), F_SETFL, flags | O_NONBLOCK);
}

void FrameChannel::send(const Frame& frame) {
    std::string body;
    body.push_back(static_cast<char>(frame.type));
    for (const auto& f : frame.fields) {
        put_u32(body, f.size());
        body += f;
    }
    put_u32(out_, body.size());
    out_ += body;
    flush();
}

bool FrameChannel::flush() {
    while (!out_.empty()) {
        const auto put = ::send(fd_.get(), out_.data(), out_.size(), MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
        out_.erase(0, static_cast<std::size_t>(put));
    }
    return true;
}

bool FrameChannel::receive() {
    char buffer[64 * 1024];
    while (true) {
        const auto got = ::recv(fd_.get(), buffer, sizeof buffer, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
        if (got == 0) return false;
        in_.append(buffer, static_cast<std::size_t>(got));
    }
}

std::optional<Frame> FrameChannel::next() {
    if (in_.size() < 4) return std::nullopt;
    const std::size_t size = get_u32(in_.data());
    if (in_.size() < 4 + size || size == 0) return std::nullopt;
    Frame frame;
    frame.type = static_cast<FrameType>(in_[4]);
    std::size_t at = 5;
    const std::size_t end = 4 + size;
    while (at + 4 <= end) {
        const std::size_t length = get_u32(in_.data() + at);
        at += 4;
        GF_ASSERT(at + length <= end);
        frame.fields.emplace_back(in_, at, length);
        at += length;
    }
    in_.erase(0, end);
    return frame;
}

ChannelPair make_channel_pair() {
    int fds[2] = {-1, -1};
    const int made = ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds);
    GF_ASSERT(made == 0);
    return {Descriptor(fds[0]), Descriptor(fds[1])};
}

}  // namespace gf::agent
