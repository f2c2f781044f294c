# scripts/outbox-top in a real terminal (tmux): what it shows, what its keys do and for whom, a hundred routes, a narrow terminal, no colour;
# and that it stays and comes back: no extension, a copy, a standby, a server that restarts. --once for scripts.
# matrix: M7
use strict;
use warnings;

use Encode qw(decode);
use IPC::Run;
use JSON::PP ();
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = $ENV{OUTBOX_TOP};
my $page = "$top/scripts/outbox-top";
sub can { my ($program) = @_; return grep { -x "$_/$program" } split /:/, $ENV{PATH} }
plan skip_all => 'tmux is not here' if !can('tmux');
plan skip_all => 'python3-psycopg or python3-rich is not here' if system('/usr/bin/python3 -c "import psycopg, rich" 2>/dev/null') != 0;

my $node = new_node(extension => 0, name => 'primary', conf => "wal_level = replica\nmax_wal_senders = 3\nhot_standby = on\n");
my $socket = $node->basedir . '/tmux';
sub tmux { my (@words) = @_; my ($out, $err) = ('', ''); IPC::Run::run([ 'tmux', '-S', $socket, @words ], '<', \undef, '>', \$out, '2>', \$err); return $out }
END { tmux('kill-server') if defined $socket }
sub sql { return $node->safe_psql('postgres', @_) }

# Opens the page in a terminal of its own. %options: user, node, columns, lines, environment, arguments.
sub open_page
{
	my ($name, %options) = @_;
	my $of = $options{node} // $node;
	my $command = 'LC_ALL=C.UTF-8 TERM=screen-256color ' . ($options{environment} // '') . " PGHOST=" . $of->host . ' PGPORT=' . $of->port . " PGDATABASE=" . ($options{database} // 'postgres') . ' PGUSER='
	  . ($options{user} // 'postgres') . " $page --interval 0.3 " . ($options{arguments} // '') . '; echo "ended with $?"; stty -a; sleep 600';
	tmux('-f', '/dev/null', 'new-session', '-d', '-s', $name, '-x', $options{columns} // 120, '-y', $options{lines} // 40, $command);
	return $name;
}
sub screen { my ($name, @how) = @_; return decode('UTF-8', tmux('capture-pane', '-t', $name, '-p', @how)) =~ s/[^\x00-\x7f]/~/gr }
sub press { my ($name, @keys) = @_; tmux('send-keys', '-t', $name, @keys); return }
# Waits until the screen is like that; a key may be pressed again where it was lost to a page that was not there yet.
sub shows
{
	my ($name, $pattern, $what) = @_;
	my $seen = '';
	return ok(wait_until(sub { $seen = screen($name); return $seen =~ $pattern }, 60), $what) || diag("$name:\n$seen");
}
my $database = 'postgres';
sub once
{
	my ($user, @arguments) = @_;
	my ($out, $err) = ('', '');
	local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port, PGDATABASE => $database, PGUSER => $user, LC_ALL => 'C.UTF-8');
	IPC::Run::run([ $page, '--once', @arguments ], '<', \undef, '>', \$out, '2>', \$err);
	return ($? >> 8, $out, $err);
}

# --- a database without the extension; then with it ---
my $main = open_page('main');
shows($main, qr/database postgres has no outbox.*CREATE EXTENSION outbox/s, 'without the extension it says so');
my ($status, $out, $err) = once('postgres', '--json');
is("$status $err", '1 ', 'for a script that is a failure');
is(JSON::PP->new->decode($out)->{notices}[0]{hint}, 'CREATE EXTENSION outbox', 'with the same words');
# A database without an encoding, as a server that was made without a locale has.
sql("CREATE DATABASE bytes TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'");
$database = 'bytes';
($status, $out, $err) = once('postgres');
is("$status $err", '1 ', 'in a database without an encoding, too');
like($out, qr/database bytes has no outbox/, '... with the same words');
$database = 'postgres';
sql('CREATE EXTENSION outbox');
shows($main, qr/3 trouble.*There is no route/s, 'made under its eyes, it goes on with that');

# --- roles ---
sql(q{CREATE ROLE nobody LOGIN; CREATE ROLE looker LOGIN IN ROLE pg_monitor; CREATE ROLE "on""call" LOGIN; SELECT outbox.grant_operate('"on""call"')});
my $redis = Outbox::Redis->start;
my $evil = "evil \e[2J\e]0;title\a";
redis_route($node, $redis, 'shop', aggregate_types => q('{order,bad}'), topic => q('{aggregate_type}'));
$node->safe_psql('postgres', "SELECT outbox.create_route('invoices', server => 'shop', aggregate_types => '{big}', topic => 'big', on_failure => 'block')");
sql(q{ALTER DATABASE postgres SET outbox.max_payload_size = '2MB'; SELECT count(outbox.emit_text('order', i::text, 'e', 'x')) FROM generate_series(1, 300) i});
ok(wait_idle($node), 'delivered');
shows($main, qr/^invoices +shop +\w+ +0 +0\b.*^shop +shop +idle +\d/ms, 'routes with rate and backlog');
shows($main, qr/^shop +outbox_redis +closed/m, 'destinations');
$redis->command('CONFIG', 'SET', 'proto-max-bulk-len', 1024 * 1024);
$redis->command('SET', 'bad', 'not a stream');
sql(q{SELECT outbox.emit_text('big', 'k', 'huge', repeat('x', 1024 * 1024 + 100)); SELECT outbox.emit_text('bad', 'k', 'e', 'x');
	SELECT outbox.emit_text('big', 'k', 'e', i::text) FROM generate_series(1, 7) i});
shows($main, qr/^invoices +dead +1 +big +message +TOO_LARGE/m, 'what is parked, by reason');
shows($main, qr/^invoices +blocked +7/m, 'and what waits behind it');
shows($main, qr/warning +topic .*bad.*WRONGTYPE/, 'trouble, as doctor() has it');
shows($main, qr/^shop +shop +topic away/m, 'a route of which nothing but a topic is in the way says so');
($status, $out) = once('postgres', '--json');
is((grep { $_->{route} eq 'shop' } @{ JSON::PP->new->decode($out)->{routes} })[0]{state}, 'topic away', 'to scripts as well, with --once');
# By backlog is by how much, by age by how long; and no line above the parts is cut where there is room for another.
my $drawn = '';
IPC::Run::run([ '/usr/bin/python3', '-', "$top/scripts/outbox-top.d" ], '<', \<<'PYTHON', '>', \$drawn);
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from look import Look, Route
import page
look = Look(database="a_database_of_a_long_name", version="0.2", server_version="15.20 (Debian)", emitted_rate=12345.6, took_seconds=0.123,
            figures={"outbox_workers_running": 2, "outbox_workers_wanted": 2, "outbox_oldest_transaction_age_seconds": 61},
            routes=[Route("old", pending=1, oldest_seconds=100), Route("much", pending=123456, oldest_seconds=5)])
view = page.View()
print(" ".join(row.route for row in view.rows(look, "routes")))
view.order = "age"
print(" ".join(row.route for row in view.rows(look, "routes")))
for line in page.draw(look, view, 80, 24).renderables[:4]:
    print(line.plain)
PYTHON
like($drawn, qr/\Amuch old\nold much\n/, 'an order is what it is called');
like($drawn, qr/workers 2\/2.*oldest writer 61 s.*looked in 123 ms\n/s, 'at 80 columns nothing is cut above the parts');
is(join('', grep { length > 80 } split /\n/, $drawn), '', 'and no line is longer');
press($main, '3');
press($main, 'Home');
shows($main, qr/^-> \S.*/m, 'with what to do about it');

# --- rights ---
my $looker = open_page('looker', user => 'looker');
shows($looker, qr/\(to look only\)/, 'who may only look');
shows($looker, qr/^shop +shop .*^invoices +dead +1/ms, 'sees all of it');
press($looker, 'p');
shows($looker, qr/role looker may not: SELECT outbox.grant_operate\('looker'\)/, 'and is told what is missing');
is(sql('SELECT count(*) FROM outbox.pause'), '0', 'nothing was paused');
my $nobody = open_page('nobody', user => 'nobody');
shows($nobody, qr/role nobody may not look: GRANT pg_monitor TO nobody/, 'who may nothing is told what is missing');
($status, $out) = once('nobody', '--json');
is($status, 1, 'for a script that is a failure');
like(JSON::PP->new->decode($out)->{missing}{figures}, qr/GRANT pg_monitor/, 'with the same words');

# --- keys that act, as an operator ---
my $operator = open_page('operator', user => 'on\"call');
shows($operator, qr/p pause  r resume  t try again/, 'who may act');
shows($operator, qr/^1 routes by backlog.*^invoices/ms, 'sees routes');
press($operator, 'End');  # 'shop', the last by name: nothing waits
shows($operator, qr/p pause/, 'the bar is moved');
press($operator, 'p');
shows($operator, qr/Pause route \w+\. Reason/, 'it asks why');
press($operator, 'Enter');
press($operator, '-l', "it's late");
press($operator, 'Enter');
shows($operator, qr/SELECT outbox\.pause\(route => '(\w+)', reason => 'it''s late'\)\s+Do it\? y\/N/, 'it shows what it will do');
press($operator, 'n');
shows($operator, qr/left as it is/, 'no is no');
is(sql('SELECT count(*) FROM outbox.pause'), '0', 'nothing was paused');
press($operator, 'p');
shows($operator, qr/Reason/, 'again');
press($operator, '-l', "it's late");
press($operator, 'Enter');
shows($operator, qr/Do it\?/, 'it asks');
press($operator, 'y');
shows($operator, qr/pause route \w+: done/, 'yes is yes');
is(sql('SELECT reason, paused_by FROM outbox.pause'), q(it's late|on"call), 'it is paused, by whom and why');
shows($operator, qr/^\w+ +shop +paused/m, 'the page says so');
press($operator, 'r');
shows($operator, qr/SELECT outbox\.resume\(route => '\w+'\)/, 'to resume');
press($operator, 'y');
shows($operator, qr/resume route \w+: done/, 'is confirmed too');
is(sql('SELECT count(*) FROM outbox.pause'), '0', 'it goes on');
press($operator, '4');
press($operator, 'Home');
shows($operator, qr/^message TOO_LARGE: /m, 'a dead letter, in full');
$redis->command('CONFIG', 'SET', 'proto-max-bulk-len', 1024 * 1024 * 64);
press($operator, 't');
shows($operator, qr/CALL outbox\.redrive\(route => 'invoices', topic => 'big', error => 'TOO_LARGE', dry_run => false\)/, 'it can be tried again');
press($operator, 'y');
shows($operator, qr/try dead letters of route invoices again: 1 event/, 'and is');
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.parked_event WHERE route = 'invoices'), '0', 60), 'it is delivered, and what waited behind it');
shows($operator, qr/^4 parked: none/m, 'the page says so');
press($operator, '?');
shows($operator, qr/waiting is an estimate/, 'there is help');
press($operator, 'q');
shows($operator, qr/ended with 0/, 'it ends in good order');

# --- as JSON ---
($status, $out, $err) = once('looker', '--json');
is("$status $err", '0 ', 'a look for scripts');
my $look = JSON::PP->new->decode($out);
is(join(' ', map { $_->{route} } @{ $look->{routes} }), 'invoices shop', 'has the routes');
is((grep { $_->{check} eq 'topic' } @{ $look->{trouble} })[0]{status}, 'warning', 'the trouble');
ok($look->{destinations}[0]{destination} eq 'shop' && $look->{role} eq 'looker' && !$look->{may}{pause}, 'destinations and rights');
($status, $out) = once('looker', '--width', 80);
is(join('', grep { length > 80 } split /\n/, decode('UTF-8', $out)), '', 'as text, no line is longer than was asked');
($status, $out, $err) = once('looker', '--interval', 0);
is($status, 2, 'an interval of nothing is refused');

# --- texts that would be orders to the terminal; a hundred routes; a small terminal without colour ---
sql("SELECT outbox.pause('invoices', reason => " . sql_literal($evil) . ")");
sql(q{SELECT count(outbox.create_route('r' || to_char(i, 'FM000'), server => 'shop', aggregate_types => '{none}')) FROM generate_series(1, 100) i});
my $small = open_page('small', columns => 40, lines => 20, environment => 'NO_COLOR=1', user => 'looker');
shows($small, qr/1 routes by backlog 1-\d+ of 102/, 'a hundred routes in forty columns');
unlike(screen($small), qr/\S.{40,}/, 'no line is longer');
press($small, 'o');
shows($small, qr/by name/, 'in another order');
press($small, 'End');
shows($small, qr/^shop/m, 'it scrolls');
press($small, 'Home');
shows($small, qr/^invoices/m, 'and back');
press($small, 'PageDown');
press($small, 'Down');
shows($small, qr/routes by name (?!1-)\d+-\d+ of 102/, 'by pages and rows');
unlike(screen($small, '-e'), qr/\e\[(?:3[1-7]|9[0-7])m/, 'no colour');
shows($main, qr/paused by postgres: evil \\x1b\[2J\\x1b\]0;title\\x07/, 'a text that would be an order to the terminal is text');
tmux('resize-window', '-t', $small, '-x', 20, '-y', 6);
shows($small, qr/q quit|Tab part/, 'very small');
tmux('resize-window', '-t', $small, '-x', 200, '-y', 60);
shows($small, qr/ack p99 +retry/, 'and large');

# --- what a replay parks does not hide dead letters ---
$redis->command('CONFIG', 'SET', 'proto-max-bulk-len', 1024 * 1024);
sql(q{SELECT outbox.resume('invoices'); SELECT count(outbox.emit_text('order', NULL, 'later', 'x', deliver_at => now() + interval '1 day')) FROM generate_series(1, 10100)});
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.parked_event WHERE state = 'scheduled'), '10100', 60), 'more than the page looks at wait for their time');
sql(q{SELECT outbox.emit_text('big', 'j', 'huge', repeat('x', 1024 * 1024 + 100))});
ok(wait_for_value($node, q(SELECT count(*) FROM outbox.dead_letter), '1', 60), 'then one becomes a dead letter');
($status, $out) = once('looker', '--json');
$look = JSON::PP->new->decode($out);
is(join(' ', map { "$_->{state} $_->{events}" } @{ $look->{parked} }), 'dead 1 scheduled 10000', 'and is there, first');
ok($look->{parked_capped}, 'that there are more than were looked at is said');

# --- Ctrl-C in the middle of a question: the terminal is what it was ---
my $cut = open_page('cut', user => 'on\"call', columns => 80, lines => 24);
shows($cut, qr/1 routes by backlog 1-\d+ of 102/, '102 routes in 80 columns and 24 lines');
press($cut, 'p');
shows($cut, qr/Reason/, 'asked for a reason');
press($cut, 'C-c');
shows($cut, qr/ended with 0.*(?<!-)\bicanon\b.*(?<!-)\becho\b/s, 'it ends, and keys are shown and taken by lines again');
is(tmux('display-message', '-p', '-t', $cut, '#{alternate_on} #{cursor_flag}'), "0 1\n", 'on the screen that was there before, with a cursor');

# --- switched off, and a copy ---
sql(q{ALTER SYSTEM SET outbox.enabled = off});
sql(q{SELECT pg_reload_conf()});
shows($main, qr/outbox\.enabled is off/, 'what is off is said first');
sql(q{ALTER SYSTEM SET outbox.instance = 'a copy'});
$node->restart;
shows($main, qr/this outbox is a copy of another one.*outbox\.adopt\(\)/s, 'after a restart of the server it is back, and tells of a copy');
$node->stop;
shows($main, qr/no connection: .*it is tried again/s, 'a server that is away is said');
shows($main, qr/^(?:shop|r\d+) +shop/m, 'beside what was seen last');
$node->start;
shows($main, qr/\A(?!.*no connection).*this outbox is a copy/s, 'and it comes back by itself');
unlike(slurp_file($node->logfile), qr/ERROR:(?!.*(?:permission denied|terminating))/, 'to look is no error in the log of the server');

# --- a standby ---
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
my $second = open_page('standby', node => $standby);
shows($second, qr/a standby: events are published where they are written/, 'a standby is called one');
shows($second, qr/^\S+ +shop +unowned/m, 'its routes are seen');
press($second, 'p');
shows($second, qr/on a standby nothing can be changed/, 'and nothing is changed there');
no_server_crashed($standby);
no_server_crashed($node);
done_testing();
