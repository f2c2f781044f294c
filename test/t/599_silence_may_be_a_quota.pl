# A broker that does not answer may be one that throttles: test_server() says so, and where to see it, beside firewalls.
use strict;
use warnings;

use IO::Socket::INET;
use Outbox::Test;
use Test::More;

my $silent = IO::Socket::INET->new(Listen => 50, LocalAddr => '127.0.0.1') or die "listen: $!";
my $node = new_node();
my $address = '127.0.0.1:' . $silent->sockport;
$node->safe_psql('postgres', qq{CREATE SERVER silent FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '$address')});
my $row = '';
ok(wait_until(sub { $row = $node->safe_psql('postgres', q{SELECT error_code, hint FROM outbox.test_server('silent', timeout => '2 s') WHERE NOT ok}); $row =~ /^TIMEOUT\|Does Kafka run/ }, 120), 'no broker answers')
  or diag($row);
like($row, qr/firewall/, 'that may be a firewall');
like($row, qr/a quota of the brokers holds the connection back: outbox\.destination says THROTTLED/, 'or a quota');
$node->stop;
done_testing();
