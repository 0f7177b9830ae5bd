package webhook_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"seckill/internal/webhook"
)

// Addresses that lead, or may lead, into the private network are not registered; nor is what is no
// address of a receiver.
func TestAddressesThatAreRefused(t *testing.T) {
	c := webhook.NewClient(webhook.ClientOptions{Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
		switch strings.ToLower(strings.TrimSuffix(name, ".")) {
		case "nowhere.example":
			return nil, errors.New("no such host")
		case "half.example": // One address is fine, the other is not.
			return []netip.Addr{netip.MustParseAddr("93.184.216.34"), netip.MustParseAddr("10.0.0.7")}, nil
		case "localhost", "loopback.example":
			return []netip.Addr{netip.MustParseAddr("::1")}, nil
		case "empty.example":
			return nil, nil
		}
		// Also what no resolver would: the form alone has to be refused.
		return []netip.Addr{netip.MustParseAddr("93.184.216.34"), netip.MustParseAddr("2606:2800:220:1::1")}, nil
	}})
	for _, address := range []string{
		"", "shop.example", "/hook", "http://shop.example/", "ftp://shop.example/", "file:///etc/passwd", "gopher://shop.example/", "https:shop.example",
		"https://", "https:///hook", "https://user:pass@shop.example/", "https://user@shop.example/", "https://shop.example/#part", "https://shop.example/#",
		"https://shop.example:0/", "https://shop.example:70000/", "https://shop.example:/", "https://shop.example:x/", "https://shop.example/a b", "https://shop.example/\r\nHost:x",
		"https://sh op.example/", "https://sh%6fp.example/%zz", "https://shop..example/", "https://.example/", "https://①②⑦.⓪.⓪.①/", "https://" + strings.Repeat("a", 64) + ".example/",
		"https://shop.example/" + strings.Repeat("a", 2048), "https://nowhere.example/", "https://empty.example/", "https://half.example/", "https://loopback.example/",
		"https://localhost/", "https://localhost:8081/", "https://LOCALHOST./",

		"https://127.0.0.1/", "https://127.0.0.1./", "https://127.255.255.254/", "https://0.0.0.0/", "https://0.1.2.3/", "https://10.0.0.1/", "https://172.16.0.1/", "https://172.31.255.255/",
		"https://192.168.1.1/", "https://169.254.169.254/latest/meta-data/", "https://100.64.0.1/", "https://100.100.100.200/", "https://168.63.129.16/", "https://192.0.0.192/",
		"https://192.0.2.1/", "https://198.18.0.1/", "https://198.51.100.1/", "https://203.0.113.1/", "https://224.0.0.1/", "https://239.255.255.255/", "https://240.0.0.1/", "https://255.255.255.255/",
		"https://2130706433/", "https://017700000001/", "https://0x7f000001/", "https://0x7f.1/", "https://0177.0.0.1/", "https://127.1/", "https://127.0.0.0x1/", "https://1/", "https://0/",
		"https://0x/", "https://1.2.3.4.5/", "https://93.184.216.034/",

		"https://[::1]/", "https://[::]/", "https://[::ffff:127.0.0.1]/", "https://[::ffff:10.0.0.1]/", "https://[::ffff:a9fe:a9fe]/", "https://[::127.0.0.1]/", "https://[64:ff9b::7f00:1]/",
		"https://[64:ff9b:1::1]/", "https://[2002:7f00:1::]/", "https://[2001:0:4136:e378::1]/", "https://[2001:db8::1]/", "https://[fe80::1]/", "https://[fe80::1%25eth0]/", "https://[fec0::1]/",
		"https://[fc00::1]/", "https://[fd00:ec2::254]/", "https://[ff02::1]/", "https://[100::1]/", "https://[3fff::1]/", "https://[::1/", "https://[2606:2800:220:1::1%25x]/",
	} {
		wrong := c.Check(t.Context(), address)
		if len(wrong) != 1 || wrong[0].Field != "url" {
			t.Errorf("%.60q: got %v, want it refused", address, wrong)
		}
	}
	for _, address := range []string{
		"https://shop.example", "https://shop.example/hooks?x=1", "https://shop.example:8443/", "https://SHOP.example./", "https://93.184.216.34/", "https://[2606:2800:220:1::1]/", "https://[::ffff:93.184.216.34]/",
	} {
		if wrong := c.Check(t.Context(), strings.ToLower(address)); wrong != nil {
			t.Errorf("%q: %v", address, wrong)
		}
	}
}

// Who allows private addresses may use http and any host, and still no nonsense.
func TestPrivateAddressesMayBeAllowed(t *testing.T) {
	c := webhook.NewClient(webhook.ClientOptions{AllowPrivate: true})
	for _, address := range []string{"http://127.0.0.1:8000/", "http://shop.internal/", "https://10.0.0.1/", "http://[::1]:80/"} {
		if wrong := c.Check(t.Context(), address); wrong != nil {
			t.Errorf("%q: %v", address, wrong)
		}
	}
	for _, address := range []string{"", "ftp://10.0.0.1/", "http://u:p@10.0.0.1/", "http://2130706433/", "10.0.0.1"} {
		if wrong := c.Check(t.Context(), address); len(wrong) != 1 {
			t.Errorf("%q: %v, want it refused", address, wrong)
		}
	}
}
