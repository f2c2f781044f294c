# What CloudNativePG mounts beside a server that has nothing of outbox (packaging/cloudnativepg/layout), with the two settings and the
# variable by which it says so: library, SQL, programs and the programs' libraries are taken from there.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my ($version) = `postgres --version` =~ / (\d+)/;
plan skip_all => "PostgreSQL $version finds no extension outside of its own folders" if $version < 18;

my $volume = PostgreSQL::Test::Utils::tempdir() . '/volume';
is(system("cd '$ENV{OUTBOX_TOP}' && packaging/cloudnativepg/layout '$ENV{OUTBOX_STAGE}' '$volume'"), 0, 'a volume is laid out');
is(join(' ', map { s,.*/,,r } sort glob "$volume/*"), 'lib licenses share system', 'as the operator wants it');

my ($hiredis) = grep { !/ssl/ } glob "$volume/system/libhiredis.so*";
ok($hiredis && -s $hiredis, 'with the library that Redis is spoken to with');
rename $hiredis, "$volume/aside" or die "rename: $!";
append_to_file($hiredis, 'no library');

my $node = do
{
	local $ENV{LD_LIBRARY_PATH} = "$volume/system";
	new_node(conf => "extension_control_path = '\$system:$volume/share'\ndynamic_library_path = '\$libdir:$volume/lib'\n");
};
is($node->safe_psql('postgres', 'SHOW dynamic_library_path'), "\$libdir:$volume/lib", 'the extension is made of what is there');

my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis', topic => q('events'));
$node->safe_psql('postgres', q{SELECT outbox.emit('order', 1, 'e', '{}')});
ok(wait_for_value($node, q{SELECT error_code IS NOT NULL FROM outbox.destination WHERE server = 'redis'}, 't'),
	'a program that cannot load the library of the volume takes no other');
is($redis->xlen('events'), 0, 'and nothing is sent');
rename "$volume/aside", $hiredis or die "rename: $!";
ok(wait_idle($node), 'with the right one there it goes on');
is($redis->xlen('events'), 1, 'and the event arrives');
no_server_crashed($node);
done_testing();
