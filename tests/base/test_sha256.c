/* SHA-256 and HMAC-SHA-256 give the published test vectors. */
#include "base/sha256.h"
#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void check_hex(const unsigned char digest[VP_SHA256_BYTES],
                      const char *want)
{
    char text[2 * VP_SHA256_BYTES + 1];

    for (int i = 0; i < VP_SHA256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(text, want);
}

/* Hashes the message in pieces of `piece` bytes. */
static void check_hash(const char *message, size_t n, size_t piece,
                       const char *want)
{
    unsigned char digest[VP_SHA256_BYTES];
    struct vp_sha256 sha;

    vp_sha256_init(&sha);
    for (size_t at = 0; at < n; at += piece)
        vp_sha256_update(&sha, message + at, n - at < piece ? n - at : piece);
    vp_sha256_final(&sha, digest);
    check_hex(digest, want);
}

/* Examples of NIST for FIPS 180-4: one block, two blocks, the empty message. */
static void test_sha256(void **state)
{
    static const struct {
        const char *message, *want;
    } cases[] = {
        { "abc",
          "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
        { "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijkl"
          "mnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
          "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1" },
        { "",
          "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
    };
    static const size_t pieces[] = { 1, 3, 64, 1000 };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++)
        for (size_t k = 0; k < VP_COUNT_OF(pieces); k++)
            check_hash(cases[i].message, strlen(cases[i].message), pieces[k],
                       cases[i].want);
}

static void test_a_million_bytes(void **state)
{
    enum { N = 1000000 };
    char *message = malloc(N);

    (void)state;
    assert_non_null(message);
    memset(message, 'a', N);
    check_hash(message, N, 997,
               "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd"
               "0");
    free(message);
}

/* Test cases of RFC 4231, section 4. */
static void test_hmac(void **state)
{
    static const struct {
        unsigned char key_byte; /* 0: the key is the text `key` */
        size_t n_key;
        const char *key, *data;
        unsigned char data_byte;
        size_t n_data, n_compared;
        const char *want;
    } cases[] = {
        { 0x0b, 20, NULL, "Hi There", 0, 8, 64,
          "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
        { 0, 4, "Jefe", "what do ya want for nothing?", 0, 28, 64,
          "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
        { 0xaa, 20, NULL, NULL, 0xdd, 50, 64,
          "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe" },
        { 0, 25,
          "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11"
          "\x12\x13\x14\x15\x16\x17\x18\x19",
          NULL, 0xcd, 50, 64,
          "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b" },
        { 0x0c, 20, NULL, "Test With Truncation", 0, 20, 32,
          "a3b6167473100ee06e0c796c2955552b" },
        { 0xaa, 131, NULL,
          "Test Using Larger Than Block-Size Key - Hash Key First", 0, 54, 64,
          "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54" },
        { 0xaa, 131, NULL,
          "This is a test using a larger than block-size key and a larger than "
          "block-size data. The key needs to be hashed before being used by the "
          "HMAC algorithm.",
          0, 152, 64,
          "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2" },
    };

    (void)state;
    for (size_t i = 0; i < VP_COUNT_OF(cases); i++) {
        char key[256], data[256], text[2 * VP_SHA256_BYTES + 1];
        unsigned char code[VP_SHA256_BYTES];

        if (cases[i].key)
            memcpy(key, cases[i].key, cases[i].n_key);
        else
            memset(key, cases[i].key_byte, cases[i].n_key);
        if (cases[i].data)
            memcpy(data, cases[i].data, cases[i].n_data);
        else
            memset(data, cases[i].data_byte, cases[i].n_data);
        vp_hmac_sha256(key, cases[i].n_key, data, cases[i].n_data, code);
        for (int k = 0; k < VP_SHA256_BYTES; k++)
            snprintf(text + 2 * k, 3, "%02x", code[k]);
        text[cases[i].n_compared] = '\0';
        assert_string_equal(text, cases[i].want);
    }
}

static void test_same_bytes(void **state)
{
    (void)state;
    assert_true(vp_same_bytes("abc", "abd", 2));
    assert_false(vp_same_bytes("abc", "abd", 3));
    assert_false(vp_same_bytes("abc", "xbc", 3));
    assert_true(vp_same_bytes("a", "b", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256),
        cmocka_unit_test(test_a_million_bytes),
        cmocka_unit_test(test_hmac),
        cmocka_unit_test(test_same_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
