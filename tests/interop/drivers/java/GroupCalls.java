// Calls about groups that Kafka 4 has in place of older ones (older/GroupCalls.java).

import java.util.List;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.common.GroupState;

class GroupCalls {
    static boolean isListed(Admin admin, String group) throws Exception {
        return Driver.get(admin.listGroups().all()).stream().map(GroupListing::groupId).anyMatch(group::equals);
    }

    static boolean isEmpty(Admin admin, String group) throws Exception {
        return Driver.get(admin.describeConsumerGroups(List.of(group)).all()).get(group).groupState() == GroupState.EMPTY;
    }
}
