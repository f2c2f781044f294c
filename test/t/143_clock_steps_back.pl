# The wall clock is set back by five days while all works: keeper and launcher wait by another clock. Day tables are made, a
# database that is new is found, a worker that was ended comes back, events flow; when the clock is right again, too.
# matrix: B13 R4
use strict;
use warnings;

use File::Temp ();
use Outbox::Test;
use Test::More;

# The clock of the whole server and its children, moved by as many seconds as a file says.
my $dir = File::Temp::tempdir('outbox-clock.XXXXXX', TMPDIR => 1, CLEANUP => 1);
chmod 0755, $dir;
sub put { my ($name, $text) = @_; open my $file, '>', "$dir/$name" or die $!; print $file $text; close $file; chmod 0644, "$dir/$name"; return }
sub set_clock { my ($seconds) = @_; open my $file, '+<', "$dir/shift" or die $!; print $file pack('q', $seconds); close $file; return }
put('shift', pack('q', 0));
put('clock.c', q{
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static const volatile long *by;
__attribute__((constructor)) static void Begin(void) {
  int fd = open(getenv("OUTBOX_TEST_CLOCK"), O_RDONLY);
  void *map = fd < 0 ? MAP_FAILED : mmap(0, sizeof(long), PROT_READ, MAP_SHARED, fd, 0);
  by = map == MAP_FAILED ? 0 : map;
  if (fd >= 0) close(fd);
}
int clock_gettime(clockid_t id, struct timespec *time) {
  int result = syscall(SYS_clock_gettime, id, time);
  if (result == 0 && id == CLOCK_REALTIME && by) time->tv_sec += *by;
  return result;
}
int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}
time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
});
plan skip_all => 'no compiler' if system("cc -O -shared -fPIC -o $dir/clock.so $dir/clock.c 2>$dir/cc.log") != 0;

my $redis = Outbox::Redis->start;
my $node;
{
	local $ENV{OUTBOX_TEST_CLOCK} = "$dir/shift";
	local $ENV{LD_PRELOAD} = "$dir/clock.so";
	$node = new_node();
}
redis_route($node, $redis, 'r', topic => q('r'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
my $sent = 0;
sub flows { my ($what) = @_; sql(q{SELECT outbox.emit('t', 'k', 'x', '{}')}); $sent++; return ok(wait_until(sub { $redis->xlen('r') >= $sent }, 20), $what) }
flows('an event is delivered');
my $there = q{SELECT count(*) >= 4 FROM pg_inherits WHERE inhparent = 'outbox_internal.tick'::regclass};
ok(wait_for_value($node, $there, 't', 30), 'there are day tables');
my $real = time;

foreach my $days (-5, 0)
{
	set_clock($days * 86400);
	ok(wait_for_value($node, "SELECT abs(extract(epoch FROM clock_timestamp()) - $real - $days * 86400) < 600", 't', 5), "the server's clock is moved by $days days");
	flows('events flow');
	next if $days == 0;
	sql(q{SET outbox.allow_loss = on; DO $$ DECLARE t regclass; BEGIN
		FOR t IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'outbox_internal.tick'::regclass LOOP EXECUTE 'DROP TABLE ' || t; END LOOP; END $$});
	ok(wait_for_value($node, $there, 't', 45), 'day tables that are missing are made again');
	my $relay = sql(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'outbox relay' AND datname = 'postgres'});
	sql("SELECT pg_terminate_backend($relay)");
	ok(wait_for_value($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox relay' AND datname = 'postgres' AND pid <> $relay", '1', 20), 'a worker that was ended is back');
	flows('and delivers');
	sql('CREATE DATABASE found');
	$node->safe_psql('found', 'CREATE EXTENSION outbox');
	$node->safe_psql('found', q{CREATE SERVER s FOREIGN DATA WRAPPER outbox_log; SELECT outbox.create_route('r', server => 's')});
	ok(wait_for_value($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox keeper' AND datname = 'found'", '1', 30), 'a new database is found');
}
ok(wait_idle($node), 'all is delivered');
no_server_crashed($node);
done_testing();
