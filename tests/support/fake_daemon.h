/* tests/support/fake_daemon.h: a daemon that does what a test says: for libkiln's tests.
 *
 * One thread serves a socket in a folder of its own. It answers these methods, and UNSUPPORTED to others:
 *   hello    {limits: {max_message}}             echo {n}  {n}
 *   hold     nothing, until release or cancel    release   to all that are held, the newest first, {n: 0};
 * then {n: count} fail     INVALID_ARGUMENT, detail field=x    big {n}   {data: n bytes of 7} hangup   closes
 * the connection               garbage   a byte that is no message cancel   CANCELLED to the held request
 * flood     a reply of 8 MiB, all of it before it reads on compile  {executable, ...} execute   {outputs: the
 * inputs}; NOT_FOUND for another connection's handle
 */
#ifndef KILN_TESTS_SUPPORT_FAKE_DAEMON_H
#define KILN_TESTS_SUPPORT_FAKE_DAEMON_H

#include <stddef.h>
#include <stdint.h>

typedef struct fake_daemon fake_daemon_t;

/* Fails the process when it cannot start. */
fake_daemon_t *fake_daemon_start(uint64_t max_message_bytes);
const char *fake_daemon_path(const fake_daemon_t *daemon);
const char *fake_daemon_folder(const fake_daemon_t *daemon);
/* Ends all connections and listens anew on the same path, as after a restart. */
void fake_daemon_restart(fake_daemon_t *daemon);
void fake_daemon_stop(fake_daemon_t *daemon);

/* Since the start. */
unsigned fake_daemon_connections(const fake_daemon_t *daemon);
unsigned fake_daemon_compiles(const fake_daemon_t *daemon);
unsigned fake_daemon_cancels(const fake_daemon_t *daemon);
unsigned fake_daemon_held(const fake_daemon_t *daemon); /* now */

#endif
