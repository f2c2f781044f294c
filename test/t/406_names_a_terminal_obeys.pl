# A topic that a route makes of a key with an escape sequence, a bell and a turned direction of text: in the server's log and in
# doctor() they are spelled. (It arrives under its own name.)
# matrix: G4
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $redis = Outbox::Redis->start;
my $node = new_node();
my $key = "esc\e[31mRED\a\tx\xe2\x80\xaey";
my $spelled = 'cust.esc\x1b[31mRED\x07\x09x\u202ey';
redis_route($node, $redis, 'inj', topic => q('cust.{aggregate_id}'));
$redis->command('SET', "cust.$key", 'no stream');
my $from = -s $node->logfile;
$node->safe_psql('postgres', q{SELECT outbox.emit('inj', E'esc\033[31mRED\007\tx\u202ey', 'x.y', '{}')});
ok(wait_until(sub { slurp_file($node->logfile, $from) =~ /in trouble/ }), 'the topic is in trouble');
my ($said) = slurp_file($node->logfile, $from) =~ /^(.*WARNING:  outbox: topic.*)$/m;
like($said, qr/\Qtopic "$spelled" of route\E/, 'its name is spelled in the message');
my ($context) = slurp_file($node->logfile, $from) =~ /^(.*CONTEXT:  outbox: .*event=topic_trouble.*)$/m;
like($context, qr/\Qtopic="\E\Q@{[ $spelled =~ s{\\}{\\\\}gr ]}\E"/, 'and in the CONTEXT, as strings are there');
unlike(slurp_file($node->logfile, $from), qr/[\e\a]|\xe2\x80\xae/, 'no line has it raw');
my $doctor = $node->safe_psql('postgres', q{SELECT string_agg(detail, E'\n') FROM outbox.doctor()});
unlike($doctor, qr/[\e\a]|\xe2\x80\xae/, 'nor has doctor()');
$redis->command('DEL', "cust.$key");
ok(wait_idle($node), 'it works again');
is($redis->xlen("cust.$key"), 1, 'and has the event under its own name');

# A name that is long, and longer once it is spelled: the line is whole.
my %long = ('"' x 507 => '\\"' x 507, "\x01" x 507 => '\\\\x01' x 507);
foreach my $name (sort keys %long)
{
	$redis->command('SET', "cust.$name", 'no stream');
	$from = -s $node->logfile;
	my $hex = unpack 'H*', $name;
	$node->safe_psql('postgres', "SELECT outbox.emit('inj', convert_from('\\x$hex', 'UTF8'), 'x.y', '{}')");
	ok(wait_until(sub { slurp_file($node->logfile, $from) =~ /CONTEXT:  outbox: .*event=topic_trouble/ }), 'a topic with a long name is in trouble');
	($context) = slurp_file($node->logfile, $from) =~ /CONTEXT:  outbox: .*event=topic_trouble route=inj (topic=.*)$/m;
	is($context, 'topic="cust.' . $long{$name} . '" error_class=topic error_code="WRONGTYPE"', 'the line says which, and of what class');
	$redis->command('DEL', "cust.$name");
	ok(wait_idle($node), 'it works again');
}
done_testing();
