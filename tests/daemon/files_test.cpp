#include "daemon/http/files.hpp"

#include <doctest/doctest.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <filesystem>
#include <memory>

#include "daemon/http/tls.hpp"
#include "tests/daemon/support/temporary_folder.hpp"

namespace gf::http {
namespace {

TEST_CASE("ranges as RFC 9110 has them") {
    struct Row {
        const char* header;
        std::int64_t from, to;
        bool partial, unsatisfiable;
    };
    for (const auto& row : {Row{"", 0, 100, false, false}, Row{"bytes=0-9", 0, 10, true, false}, Row{"bytes=90-", 90, 100, true, false},
                            Row{"bytes=-10", 90, 100, true, false}, Row{"bytes=-1000", 0, 100, true, false},
                            Row{"bytes=50-999", 50, 100, true, false}, Row{"bytes=100-", 0, 0, false, true},
                            Row{"bytes=-0", 0, 0, false, true}, Row{"bytes=9-5", 0, 100, false, false},
                            Row{"bytes=0-1,3-4", 0, 100, false, false}, Row{"lines=0-1", 0, 100, false, false},
                            Row{"bytes=a-b", 0, 100, false, false}, Row{"bytes=--5", 0, 100, false, false},
                            Row{"bytes=99999999999999999999-", 0, 100, false, false}}) {
        CAPTURE(row.header);
        const auto range = parse_range(row.header, 100);
        CHECK(range.unsatisfiable == row.unsatisfiable);
        if (row.unsatisfiable) continue;
        CHECK(range.from == row.from);
        CHECK(range.to == row.to);
        CHECK(range.partial == row.partial);
    }
    CHECK(parse_range("bytes=-5", 0).unsatisfiable);
    CHECK(parse_range("bytes=0-", 0).unsatisfiable);
}

TEST_CASE("an upload becomes a file only with the right hash, and leaves nothing else behind") {
    test::TemporaryFolder folder;
    const auto hash = checkpoints::sha256("hello").hex();
    const auto files = [&folder] {
        return std::distance(std::filesystem::directory_iterator(folder.path()), std::filesystem::directory_iterator());
    };
    {
        FileUpload upload(folder / hash, hash);
        CHECK(upload.write("hel").has_value());
        CHECK(upload.write("lo!").has_value());
        const auto done = upload.finish();
        REQUIRE_FALSE(done);
        CHECK(done.error().kind == ErrorKind::invalid);
    }
    CHECK(files() == 0);
    {
        FileUpload upload(folder / hash, hash);
        CHECK(upload.write("hello").has_value());  // and then the connection is cut
    }
    CHECK(files() == 0);
    FileUpload upload(folder / hash, hash);
    CHECK(upload.write("hello").has_value());
    REQUIRE(upload.finish());
    CHECK(test::read_file(folder / hash) == "hello");
    const auto empty = checkpoints::sha256("").hex();
    FileUpload nothing(folder / empty, empty);
    REQUIRE(nothing.finish());
    CHECK(files() == 2);
}

TEST_CASE("the certificate is made once, and its key's hash stays the same") {
    test::TemporaryFolder folder;
    const auto first = load_or_make_tls(folder / "tls");
    REQUIRE(first);
    CHECK(first->spki_pin.size() == 64);
    const auto again = load_or_make_tls(folder / "tls");
    REQUIRE(again);
    CHECK(again->spki_pin == first->spki_pin);
    const auto mode = std::filesystem::status(folder / "tls/key.pem").permissions();
    CHECK(mode == (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
    std::filesystem::remove(folder / "tls/key.pem");
    const auto other = load_or_make_tls(folder / "tls");
    REQUIRE(other);
    CHECK(other->spki_pin != first->spki_pin);
    // A certificate for other names: the key, which agents know, stays.
    std::filesystem::remove(folder / "tls/cert.pem");
    const auto renamed = load_or_make_tls(folder / "tls", {"Ferry.example.org", "[2001:db8::5]", "192.0.2.7", "bad,DNS:evil", ""});
    REQUIRE(renamed);
    CHECK(renamed->spki_pin == other->spki_pin);
    const std::unique_ptr<BIO, decltype(&BIO_free_all)> pem(BIO_new_file((folder / "tls/cert.pem").c_str(), "r"), &BIO_free_all);
    const std::unique_ptr<X509, decltype(&X509_free)> cert(PEM_read_bio_X509(pem.get(), nullptr, nullptr, nullptr), &X509_free);
    REQUIRE(cert);
    CHECK(X509_check_host(cert.get(), "ferry.example.org", 0, 0, nullptr) == 1);
    CHECK(X509_check_host(cert.get(), "localhost", 0, 0, nullptr) == 1);
    CHECK(X509_check_host(cert.get(), "evil", 0, 0, nullptr) != 1);
    for (const char* address : {"127.0.0.1", "::1", "2001:db8::5", "192.0.2.7"}) {
        CAPTURE(address);
        CHECK(X509_check_ip_asc(cert.get(), address, 0) == 1);
    }
    test::write_file(folder / "tls/key.pem", "not a key");
    const auto broken = load_or_make_tls(folder / "tls");
    REQUIRE_FALSE(broken);
    CHECK(broken.error().message.find("key.pem") != std::string::npos);
}

}  // namespace
}  // namespace gf::http
