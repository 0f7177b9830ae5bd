package admin

import (
	"net/http"
	"time"

	"seckill"
)

// nodeView is a process that serves, as the API shows it.
type nodeView struct {
	ID        string    `json:"id"`
	Address   string    `json:"address"`
	Roles     []string  `json:"roles"`
	Version   string    `json:"version"`
	StartedAt time.Time `json:"started_at"`
	SeenAt    time.Time `json:"seen_at"`
	Ready     bool      `json:"ready"`
	Reason    string    `json:"reason"`
	Stock     string    `json:"stock"`
	Queue     string    `json:"queue"`
	Database  string    `json:"database"`
}

type nodeList struct {
	Nodes []nodeView `json:"nodes"`
	// ServerTime is the time that seen_at is by.
	ServerTime time.Time `json:"server_time"`
}

func showNode(n *seckill.Node) nodeView {
	v := nodeView{n.ID, n.Address, n.Roles, n.Version, n.StartedAt.UTC(), n.SeenAt.UTC(), n.Ready, n.Reason, n.Stock, n.Queue, n.Database}
	if v.Roles == nil {
		v.Roles = []string{}
	}
	return v
}

func (s *Server) listNodes(r *http.Request) (answer, error) {
	nodes, now, err := s.o.Nodes(r.Context())
	if err != nil {
		return answer{}, err
	}
	views := make([]nodeView, len(nodes))
	for i := range nodes {
		views[i] = showNode(&nodes[i])
	}
	return answer{status: http.StatusOK, body: nodeList{views, now.UTC()}}, nil
}
