// Calls about groups as Kafka 3 has them (../GroupCalls.java has those of Kafka 4).

import java.util.List;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.common.ConsumerGroupState;

class GroupCalls {
    static boolean isListed(Admin admin, String group) throws Exception {
        return Driver.get(admin.listConsumerGroups().all()).stream().map(ConsumerGroupListing::groupId).anyMatch(group::equals);
    }

    static boolean isEmpty(Admin admin, String group) throws Exception {
        return Driver.get(admin.describeConsumerGroups(List.of(group)).all()).get(group).state() == ConsumerGroupState.EMPTY;
    }
}
