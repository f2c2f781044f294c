# A dump that was restored without foreign servers, as where these are made by other means, or are others in staging: it is adopted all
# the same, doctor() says what is missing, and what waited goes as soon as there is a server of that name.
# matrix: C5 C16
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(extension => 0, conf => "max_worker_processes = 24\noutbox.lone_emit = allow\n");
sub sql { my ($database, $sql) = @_; return $node->safe_psql($database, $sql) }
sql('postgres', "CREATE DATABASE $_") foreach qw(original restored);
sql('original', q{CREATE EXTENSION outbox; CREATE SERVER away FOREIGN DATA WRAPPER outbox_null});
sql('original', q{SELECT outbox.create_route('r', server => 'away', lanes => 2, topic => 'shop.{aggregate_type}')});
sql('original', q{SELECT outbox.pause('r', reason => 'it waits in the dump')});
my @ids = split /\n/, sql('original', q{SELECT outbox.emit('order', n, 'e', '{}') FROM generate_series(1, 4) n});

my ($dump, $list) = map { $node->basedir . "/$_" } qw(dump list);
command_ok([ 'pg_dump', '-Fc', '-f', $dump, '-d', $node->connstr('original') ], 'dumped');
my ($contents) = run_command([ 'pg_restore', '-l', $dump ]);
like($contents, qr/ SERVER - away /, 'with its server');
append_to_file($list, join '', map { "$_\n" } grep { !/ SERVER /} split /\n/, $contents);
command_ok([ 'pg_restore', '--exit-on-error', '-L', $list, '-d', $node->connstr('restored'), $dump ], 'and restored without it');
is(sql('restored', q{SELECT count(*) FROM pg_foreign_server WHERE srvname = 'away'}), '0', 'there is none');
is(sql('restored', q{SELECT outbox.adopt()}), '4', 'it is adopted');
is(sql('restored', q{SELECT outbox.resume('r')}), 't', 'the route goes on');
like(sql('restored', q{SELECT string_agg(detail, ' ') FROM outbox.doctor() WHERE "check" = 'route' AND status <> 'ok'}), qr/"away"/, 'doctor() misses the server');
sql('restored', q{CREATE SERVER away FOREIGN DATA WRAPPER outbox_null});
is(sql('restored', q{SELECT outbox.wait_until_idle('120 s')}), 't', 'with a server it delivers');
my $ids = '{' . join(',', @ids) . '}';
is(sql('restored', qq(SELECT string_agg(DISTINCT s.state, ' ') FROM unnest('$ids'::uuid[]) u, outbox.status(u) s)), 'delivered', 'what had waited');
no_server_crashed($node);
done_testing();
