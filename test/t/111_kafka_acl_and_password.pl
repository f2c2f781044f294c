# A Kafka that asks who is there. Wrong passwords, certificates and host names: trouble that a person must mend, backed off
# from, charged to no event, and over when the user mapping or the server is altered. Rights on one topic taken away and
# given back: that topic waits, the others flow, and it comes back by itself. Passwords are told to nobody.
# matrix: D7 D8 G4
# ring: long
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

Outbox::Kafka::skip_without();

# What must never be seen again.
my %secret = map { $_ => "canary-$_-" . join '', map { chr(97 + int rand 26) } 1 .. 12 } qw(right wrong rotated);
my $kafka = Outbox::Kafka->start_secured(users => { outbox => $secret{right} });
my $trusted = $kafka->{certificate};
my (undef, $stranger) = Outbox::Kafka::key_and_certificate();
my @topics = qw(well denied);
$kafka->create_topic($_, 2) foreach @topics;
$kafka->grant($_, 'outbox') foreach @topics;

my $node = new_node();
my $credentials = q("sasl.username" 'outbox', "sasl.password");
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub password { my ($server, $password) = @_; return sql(qq{ALTER USER MAPPING FOR PUBLIC SERVER $server OPTIONS (SET "sasl.password" '$password')}) }
sub server
{
	my ($name, $address, $protocol, $password, $more) = @_;
	sql(qq{CREATE SERVER $name FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '$address', "security.protocol" '$protocol', "sasl.mechanism" 'PLAIN'$more)});
	return sql(qq{CREATE USER MAPPING FOR PUBLIC SERVER $name OPTIONS ($credentials '$password')});
}
server('events', $kafka->{sasl}, 'sasl_plaintext', $secret{wrong}, '');
sql(q{SELECT outbox.create_route('events', server => 'events', topic => '{aggregate_type}')});

my @keys = map { "k$_" } 1 .. 4;
my $done = 0;
sub more { my ($count, @types) = @_; emit_counted($node, $_, \@keys, $done + 1, $done + $count) foreach @types; $done += $count; return }
sub complete
{
	my ($what, @topics) = @_;
	ok(wait_until(sub { !grep { $kafka->count($_) < $done * @keys } @topics }, 40), "$what: everything arrives");
	my $expected = { map { $_ => join ' ', 1 .. $done } @keys };
	is_deeply(by_key($kafka->payloads($_)), $expected, "$what: $_ in order, nothing twice") foreach @topics;
	ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.parked', '0', 20), "$what: nothing is parked, no event was charged");
	return;
}
sub destination_is
{
	my ($server, $class, $code, $what) = @_;
	return ok(wait_for_value($node, qq{SELECT state <> 'closed', error_class, error_code ~ '^($code)\$', error_message <> '' FROM outbox.destination WHERE server = '$server'},
		"t|$class|t|t", 40), $what);
}
sub log_lines { return scalar(my @lines = split /\n/, slurp_file($node->logfile)) }

# --- a wrong password ---------------------------------------------------------------------------------------------------
my $lines = log_lines();
more(30, @topics);
destination_is('events', 'config', '_AUTHENTICATION|SASL_AUTHENTICATION_FAILED', 'a wrong password is trouble that a person must mend');
ok(wait_for_value($node, q{SELECT state, next_try > now(), since <= now() FROM outbox.destination WHERE server = 'events'}, 'open|t|t', 40), 'the breaker is open, with since and a next try');
ok(wait_for_value($node, q{SELECT count(*) > 0 FROM outbox.lag WHERE error_class = 'config'}, 't', 20), 'outbox.lag says so too');
my $tries = q{SELECT state || since FROM outbox.destination WHERE server = 'events'};
foreach (1 .. 3)
{
	my $before = sql($tries);
	ok(wait_until(sub { sql($tries) ne $before }, 40), 'it is tried again, and again in vain');
}
is(sql(q{SELECT trips, deaths FROM outbox.destination WHERE server = 'events'}), '1|0', 'all one outage; no sink process died');
is(sql('SELECT count(*) FROM outbox_internal.parked'), '0', 'no event is charged');
cmp_ok(log_lines() - $lines, '<', 10, 'no storm in the server log');
password('events', $secret{right});
complete('the right password', @topics);
ok(wait_for_value($node, q{SELECT state, error_class IS NULL FROM outbox.destination WHERE server = 'events'}, 'closed|t', 20), 'and the breaker is closed');

# --- rights on a topic --------------------------------------------------------------------------------------------------
my $workers = join ' ', relay_pids($node);
$kafka->revoke('denied', 'outbox');
more(30, reverse @topics);
ok(wait_until(sub { $kafka->count('well') == $done * @keys }, 40), 'rights on one topic taken away: the other flows');
ok(wait_for_value($node, q{SELECT topic, error_class, error_code FROM outbox_internal.side_topic}, 'denied|topic|TOPIC_AUTHORIZATION_FAILED', 40), 'it has left the lane, with the reason');
more(30, @topics);
ok(wait_until(sub { $kafka->count('well') == $done * @keys }, 40), 'the other flows on');
is(sql(q{SELECT state FROM outbox.destination WHERE server = 'events'}), 'closed', 'it is no trouble of the destination');
is(sql(q{SELECT coalesce(max(attempts), 0), count(*) FILTER (WHERE state = 'dead') FROM outbox_internal.parked}), '0|0', 'no event is charged');
# Progress is noted a moment after the events are there.
ok(wait_for_value($node, 'SELECT sum(pending) FROM outbox.lag', 60 * @keys, 20), 'outbox.lag counts what waits');
$kafka->grant('denied', 'outbox');
complete('rights given back', @topics);
ok(wait_for_value($node, 'SELECT count(*) FROM outbox_internal.side_lane', '0', 40), 'the topic has rejoined its lane');
is(join(' ', relay_pids($node)), $workers, 'nobody was restarted for it');

# --- a password changed at the broker -----------------------------------------------------------------------------------
$kafka->set_users({ outbox => $secret{rotated} });
more(30, @topics);
destination_is('events', 'config', '_AUTHENTICATION|SASL_AUTHENTICATION_FAILED', 'a password changed at the broker is trouble that a person must mend');
password('events', $secret{rotated});
complete('the new password', @topics);

# --- TLS ----------------------------------------------------------------------------------------------------------------
sql(q{SELECT outbox.drop_route('events')});
server('tls', $kafka->{tls}, 'sasl_ssl', $secret{rotated}, qq(, "ssl.ca.pem" '$stranger'));
sql(q{SELECT outbox.create_route('tls', server => 'tls', topic => '{aggregate_type}')});
more(10, @topics);
destination_is('tls', 'config', '_SSL', 'a certificate of a stranger is trouble that a person must mend');
sql(qq{ALTER SERVER tls OPTIONS (SET "ssl.ca.pem" '$trusted')});
complete('the right certificate', @topics);
sql(q{ALTER SERVER tls OPTIONS (SET "bootstrap.servers" '} . $kafka->{tls} =~ s/localhost/127.0.0.1/r . q{')});
more(10, @topics);
destination_is('tls', 'config', '_SSL', 'a node of another name likewise');
sql(qq{ALTER SERVER tls OPTIONS (SET "bootstrap.servers" '$kafka->{tls}')});
complete('the right name', @topics);

# --- secrets ------------------------------------------------------------------------------------------------------------
password('tls', $secret{wrong});
more(1, 'well');
destination_is('tls', 'config', '_AUTHENTICATION|SASL_AUTHENTICATION_FAILED', 'wrong again');
my %seen = (log => slurp_file($node->logfile));
$seen{$_} = sql("SELECT string_agg(v::text, E'\\n') FROM $_ v")
  foreach split /\n/, sql(q{SELECT format('%I.%I', relnamespace::regnamespace, relname) FROM pg_class WHERE relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND relkind IN ('v', 'r', 'p') AND relname <> 'log'});
$seen{$_} = sql("SELECT string_agg(v::text, E'\\n') FROM $_ v") foreach 'outbox.doctor()', 'pg_stat_activity', 'pg_foreign_server';
foreach my $pid (relay_pids($node), sink_pids($node))
{
	$seen{"$_ of $pid"} = slurp_file("/proc/$pid/$_") foreach grep { $_ eq 'cmdline' || open my $file, '<', "/proc/$pid/$_" } 'cmdline', 'environ';
}
cmp_ok(scalar(keys %seen), '>', 20, 'there is something to look at');
like(sql('SELECT umoptions FROM pg_user_mapping'), qr/\Q$secret{wrong}\E/, 'the password is where it belongs');
foreach my $name (sort keys %secret)
{
	is(join(', ', grep { $seen{$_} =~ /\Q$secret{$name}\E/ } sort keys %seen), '', "the $name password is in no log, view, table or process title");
}
no_server_crashed($node);
done_testing();
